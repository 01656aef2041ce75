"""Which texts an encoder reads, in all the forms and under all the names that clients use."""

from typing import Any

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, PREPARE_ROWS_PATH
from conch_contracts.openai.encoders.scores import SIDES
from conch_contracts.records import Activation, EncoderProfile, ModelKind
from testkit.gateway.encoders import serving
from testkit.gateway.fakes import answered

VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'


@pytest.mark.parametrize(
    ("body", "texts", "special"),
    [
        ({"input": [5, 6]}, [[5, 6]], True),
        ({"input": [[5], [6]]}, [[5], [6]], True),
        ({"input": "a", "add_special_tokens": False}, ["a"], False),
    ],
)
async def test_a_classifier_reads_every_form_of_input(body: dict[str, Any], texts: list[Any], special: bool) -> None:
    served = serving(ModelKind.CLASSIFY, answered(b'{"rows":[[0.25],[0.1]]}'), 1, 1)
    assert (await served.client.post("/classify", body)).status == 200
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (preparation["texts"], preparation["add_special_tokens"]) == (texts, special)


@pytest.mark.parametrize(
    ("kind", "path", "body", "field", "value"),
    [
        (ModelKind.RERANK, "/rerank", {"query": "q", "documents": ["a"]}, "activation", "none"),
        (ModelKind.RERANK, "/score", {"text_1": "q", "text_2": "a"}, "activation", "none"),
        (ModelKind.CLASSIFY, "/classify", {"input": "a"}, "activation", "none"),
        (ModelKind.EMBEDDING, "/v1/embeddings", {"input": "a"}, "normalize", False),
        (ModelKind.EMBEDDING, "/pooling", {"input": "a"}, "normalize", False),
    ],
)
async def test_the_newer_name_of_a_switch_is_known(
    kind: ModelKind, path: str, body: dict[str, Any], field: str, value: object
) -> None:
    worker = answered(VECTORS if kind is ModelKind.EMBEDDING else b'{"rows":[[0.5]]}')
    served = serving(kind, worker, profile=EncoderProfile(activation=Activation.SIGMOID, normalize=True))
    assert (await served.client.post(path, {**body, "use_activation": False})).status == 200
    assert served.upstream.sent(ENCODE_PATH)[0][field] == value
    refused_ = await served.client.post(path, {**body, "use_activation": False, field: True})
    assert (refused_.status, refused_.error["param"]) == (400, "use_activation")


@pytest.mark.parametrize("first", [["q"], "q"])
@pytest.mark.parametrize(("one", "other"), SIDES)
async def test_the_sides_of_pairs_have_several_names(one: str, other: str, first: Any) -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":[[0.5],[0.75]]}'), 1, 1)
    found = orjson.loads((await served.client.post("/score", {one: first, other: ["a", "b"]})).body)
    assert [item["score"] for item in found["data"]] == [0.5, 0.75]
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (preparation["texts"], preparation["pairs"]) == (["q"], ["a", "b"])
    told = {"rows": [{"ids": [1]}, {"ids": [1] * 70}], "firsts": []}
    long = serving(ModelKind.RERANK, answered(b"{}"), tokenizer=answered(orjson.dumps(told)))
    assert (await long.client.post("/score", {one: first, other: ["a", "b"]})).error["param"] == f"{other}.1"
    uneven = await served.client.post("/score", {one: ["q", "r", "s"], other: ["a", "b"]})
    assert (uneven.status, uneven.error["param"]) == (400, one)


@pytest.mark.parametrize(
    ("given", "param", "code"),
    [
        ([], "text_1", "missing_required_parameter"),
        (["text_1"], "text_2", "missing_required_parameter"),
        (["data_2"], "data_1", "missing_required_parameter"),
        (["queries"], "documents", "missing_required_parameter"),
        (["items"], "queries", "missing_required_parameter"),
        (["text_1", "data_2"], "data_2", "invalid_value"),
        (["queries", "documents", "items"], "items", "invalid_value"),
        (["text_1", "text_2", "items"], "items", "invalid_value"),
    ],
)
async def test_the_sides_of_pairs_belong_together(given: list[str], param: str, code: str) -> None:
    served = serving(ModelKind.RERANK, answered(b"{}"), 1, 1)
    answer = await served.client.post("/score", dict.fromkeys(given, "a"))
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)


async def test_a_conversation_is_rendered_with_its_parts() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS))
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    assert (await served.client.post("/v1/embeddings", body)).status == 200
    chat = served.upstream.sent(PREPARE_ROWS_PATH)[0]["chat"]
    assert chat["messages"] == [{"role": "user", "content": "ab\nc"}]
    assert (chat["part_lengths"], chat["content_format"]) == ({"0": [2, 1]}, "auto")


PARTS = {"content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/score", {"text_1": "a", "text_2": PARTS}, "text_2.content.1"),
        ("/rerank", {"query": "a", "documents": PARTS}, "documents.content.1"),
    ],
)
async def test_each_part_of_a_content_is_a_text_of_its_own(path: str, body: dict[str, Any], param: str) -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":[[0.5],[0.75]]}'), 1, 1)
    found = orjson.loads((await served.client.post(path, body)).body)
    assert len(found["data"]) == 2
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (preparation["texts"], preparation["pairs"]) == (["a"], ["b", "c"])
    told = {"rows": [{"ids": [1]}, {"ids": [1] * 70}], "firsts": []}
    long = serving(ModelKind.RERANK, answered(b"{}"), tokenizer=answered(orjson.dumps(told)))
    assert (await long.client.post(path, body)).error["param"] == param


async def test_an_embedding_model_orders_documents_by_their_cosine() -> None:
    served = serving(ModelKind.EMBEDDING, answered(b'{"rows":[[0.25],[0.75]]}'), 1, 1, 1)
    found = orjson.loads((await served.client.post("/rerank", {"query": "q", "documents": ["a", "b"]})).body)
    assert [(item["index"], item["relevance_score"]) for item in found["results"]] == [(1, 0.75), (0, 0.25)]
    assert served.upstream.sent(PREPARE_ROWS_PATH)[0]["texts"] == ["q", "a", "b"]
    sent = served.upstream.sent(ENCODE_PATH)[0]
    assert (sent["task"], sent["firsts"]) == ("similarity", 1)


@pytest.mark.parametrize("name", ["max_tokens_per_query", "max_tokens_per_doc"])
async def test_a_limit_of_one_side_of_a_pair_needs_pairs(name: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(b'{"rows":[[0.25]]}'), 1, 1)
    body = {"query": "q", "documents": ["a"]}
    answer = await served.client.post("/rerank", {**body, name: 5})
    assert (answer.status, answer.error["param"]) == (400, name)
    assert (await served.client.post("/rerank", {**body, name: 0})).status == 200


@pytest.mark.parametrize(
    ("name", "cut"), [("max_tokens_per_query", "truncate_firsts"), ("max_tokens_per_doc", "truncate_pairs")]
)
@pytest.mark.parametrize(("asked", "kept", "whole"), [(0, None, None), (5, 5, 64)])
async def test_0_is_no_limit_of_a_query_or_a_document(
    name: str, cut: str, asked: int, kept: int | None, whole: int | None
) -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":[[0.25]]}'))
    assert (await served.client.post("/rerank", {"query": "q", "documents": ["a"], name: asked})).status == 200
    (sent,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (sent[cut], sent["truncate"]) == (kept, whole)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/embeddings", ModelKind.EMBEDDING), ("/rerank", ModelKind.RERANK), ("/rerank", ModelKind.EMBEDDING)],
)
async def test_the_side_where_a_text_is_cut_reaches_the_tokenizer(path: str, kind: ModelKind) -> None:
    served = serving(kind, answered(VECTORS if path != "/rerank" else b'{"rows":[[0.5]]}'), 1, 1)
    body = {"input": "a"} if path != "/rerank" else {"query": "q", "documents": ["a"]}
    answer = await served.client.post(path, {**body, "truncation_side": "left", "truncate_prompt_tokens": 5})
    assert answer.status == 200
    assert served.upstream.sent(PREPARE_ROWS_PATH)[0]["truncation_side"] == "left"


async def test_a_conversation_goes_on_where_a_request_says_so() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS))
    body = {"messages": [{"role": "user", "content": "a"}], "continue_final_message": True}
    assert (await served.client.post("/v1/embeddings", body)).status == 200
    (sent,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (sent["chat"]["continue_final_message"], sent["chat"]["add_generation_prompt"]) == (True, False)
    both = await served.client.post("/v1/embeddings", {**body, "add_generation_prompt": True})
    assert (both.status, both.error["param"]) == (400, "continue_final_message")
