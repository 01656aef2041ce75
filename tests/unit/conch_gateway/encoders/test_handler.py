"""The flow of a request to an encoder through the ASGI application, on fakes."""

import asyncio
from typing import Any

import msgspec
import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conch_contracts.messages.encoding import EncodeRequest, PrepareRowsRequest
from conch_contracts.messages.message import from_json
from conch_contracts.names import DETOKENIZE_PATH, ENCODE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH, EngineAddress
from conch_contracts.records import (
    Activation,
    Dialect,
    EncoderProfile,
    Engine,
    ModelKind,
    Pooling,
    Profile,
    RoutingPolicy,
)
from conch_gateway.encoders import handler
from conch_kit.tracing import OtlpTracer
from testkit.gateway.encoders import serving
from testkit.gateway.fakes import ENGINE, FakeAnswer, answered, gateway, refused, route, rows, snapshot

VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'
OTHER = EngineAddress("127.0.0.1:8002")


async def test_vectors_pass_as_the_worker_wrote_them_behind_the_gateways_fields() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS))
    answer = await served.client.post("/v1/embeddings", {"model": "enc", "input": "hi"})
    body = orjson.loads(answer.body)
    assert body.pop("id").startswith("embd-")
    assert body.pop("created") > 0
    assert body == {
        "object": "list",
        "model": "enc",
        "usage": {"prompt_tokens": 3, "total_tokens": 3, "completion_tokens": 0, "prompt_tokens_details": None},
        "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.0]}],
    }
    labels = {"model": "enc", "kind": "prompt"}
    assert served.registry.get_sample_value("conch_gateway_tokens_total", labels) == 3


async def test_a_request_id_in_the_body_names_answer_and_reply() -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":[[0.5]]}'))
    body = {"model": "enc", "query": "a", "documents": ["b"], "request_id": "job-7", "priority": -1}
    answer = await served.client.post("/v1/rerank", body)
    assert answer.headers[b"x-request-id"] == b"job-7"
    assert orjson.loads(answer.body)["id"].endswith("-job-7")


async def test_documents_are_left_out_unasked_where_denglins_clients_expect_none() -> None:
    model = route(served_names=("enc",), kind=ModelKind.RERANK, dialect=Dialect.ENCODER, profile=Profile.DENGLIN)
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: answered(b'{"rows":[[0.5]]}')}
    served = gateway(scripts, known=snapshot(model))
    for asked, shown in ({}, False), ({"return_documents": True}, True):
        answer = await served.client.post("/v1/rerank", {"model": "enc", "query": "a", "documents": ["b"], **asked})
        assert ("document" in orjson.loads(answer.body)["results"][0]) is shown


async def test_the_worker_is_told_everything_that_its_contract_holds() -> None:
    profile = EncoderProfile(
        pooling=Pooling.CLS, normalize=False, matryoshka=True, inputs={"input_ids": "ids"}, output="out"
    )
    engines = (Engine(grpc=ENGINE, model="renamed", named_in="team"),)
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=profile, engines=engines)
    body = {"model": "enc", "input": "hi", "dimensions": 8, "encoding_format": "base64"}
    assert (await served.client.post("/v1/embeddings", body)).status == 200
    prepared, encoded = served.upstream.posts
    rows, message = from_json(PrepareRowsRequest, prepared.body), from_json(EncodeRequest, encoded.body)
    assert (rows.texts, rows.longest) == (("hi",), 64)
    assert msgspec.structs.asdict(message.target) == {
        "address": ENGINE,
        "named_in": "team",
        "model": "renamed",
        "inputs": {"input_ids": "ids"},
        "output": "out",
        "patience_s": RoutingPolicy().first_token_timeout_s,
    }
    assert (message.pooling, message.normalize, message.dimensions, message.base64) == (Pooling.CLS, False, 8, True)
    assert RoutingPolicy().timeout_s - 60 < message.timeout_s < RoutingPolicy().timeout_s


RANKED: dict[str, Any] = {"query": "q", "documents": ["a", {"text": "b"}, {"content": [{"type": "text", "text": "c"}]}]}


@pytest.mark.parametrize(
    ("path", "changes", "order", "documents"),
    [
        ("/v1/rerank", {}, [1, 0, 2], True),
        ("/rerank", {"return_documents": False}, [1, 0, 2], False),
        ("/v2/rerank", {}, [1, 0, 2], False),
        ("/v2/rerank", {"return_documents": True, "top_n": "1"}, [1], True),
        ("/v1/rerank", {"top_n": 0}, [1, 0, 2], True),
        ("/v1/rerank", {"top_n": 99}, [1, 0, 2], True),
        ("/v1/rerank", {"top_n": 2}, [1, 0], True),
    ],
)
async def test_documents_are_ordered_and_equal_ones_keep_their_order(
    path: str, changes: dict[str, Any], order: list[int], documents: bool
) -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":[[0.5],[0.75],[0.5]]}'), 2, 2, 2)
    found = orjson.loads((await served.client.post(path, {**RANKED, **changes})).body)
    assert [result["index"] for result in found["results"]] == order
    assert [(entry["object"], entry["index"]) for entry in found["data"]] == [("rerank", index) for index in order]
    assert [result.get("document") for result in found["results"]] == [
        {"text": "abc"[index]} if documents else None for index in order
    ]
    assert found["meta"]["tokens"] == {"input_tokens": 6}
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (preparation["texts"], preparation["pairs"]) == (["q"], ["a", "b", "c"])


@pytest.mark.parametrize(("asked", "activation"), [(None, "softmax"), (True, "softmax"), (False, "none")])
async def test_the_likeliest_class_is_named(asked: bool | None, activation: str) -> None:
    profile = EncoderProfile(labels=("bad", "good"), activation=Activation.SOFTMAX)
    served = serving(ModelKind.CLASSIFY, answered(b'{"rows":[[0.25,0.75],[0.1,0.2]]}'), 1, 1, profile=profile)
    body = {"input": ["x", "y"]} | ({} if asked is None else {"activation": asked})
    found = orjson.loads((await served.client.post("/classify", body)).body)
    assert [item["label"] for item in found["data"]] == ["good", "good"]
    assert found["data"][0]["probs"] == [0.25, 0.75]
    assert found["usage"]["prompt_tokens_details"] is None
    assert served.upstream.sent(ENCODE_PATH)[0]["activation"] == activation


@pytest.mark.parametrize(
    ("kind", "texts", "pairs", "task"),
    [(ModelKind.RERANK, ["a"], ["b", "c"], "score"), (ModelKind.EMBEDDING, ["a", "b", "c"], [], "similarity")],
)
async def test_pairs_are_read_or_compared(kind: ModelKind, texts: list[str], pairs: list[str], task: str) -> None:
    served = serving(kind, answered(b'{"rows":[[0.5],[0.25]]}'), 1, 1)
    found = orjson.loads((await served.client.post("/score", {"text_1": "a", "text_2": ["b", "c"]})).body)
    assert [item["score"] for item in found["data"]] == [0.5, 0.25]
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (preparation["texts"], preparation["pairs"]) == (texts, pairs)
    assert served.upstream.sent(ENCODE_PATH)[0]["task"] == task


@pytest.mark.parametrize(
    ("changes", "truncates", "cut"),
    [
        ({}, False, None),
        ({}, True, 64),
        ({"truncate_prompt_tokens": -1}, False, 64),
        ({"truncate_prompt_tokens": 9}, True, 9),
    ],
)
async def test_a_text_is_cut_where_request_or_model_say_so(
    changes: dict[str, Any], truncates: bool, cut: int | None
) -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=EncoderProfile(truncate=truncates))
    await served.client.post("/v1/embeddings", {"input": "hi", **changes})
    assert served.upstream.sent(PREPARE_ROWS_PATH)[0]["truncate"] == cut


async def test_a_text_above_the_context_is_refused_before_it_queues() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), 3, 65)
    answer = await served.client.post("/v1/embeddings", {"input": ["a", "b"]})
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    assert answer.error["param"] == "input.1"
    assert "'input.1' has 65 tokens" in answer.error["message"]
    assert served.upstream.sent(ENCODE_PATH) == []


@pytest.mark.parametrize(
    ("path", "body", "firsts", "param", "length"),
    [
        ("/rerank", RANKED, [9], "documents.1", 70),
        ("/rerank", RANKED, [64], "query", 64),
        ("/score", {"text_1": ["a", "b", "c"], "text_2": ["d", "e", "f"]}, [9, 66, 9], "text_1.1", 66),
        ("/score", {"text_1": "a", "text_2": ["d", "e", "f"]}, [9], "text_2.1", 70),
    ],
)
async def test_of_a_pair_that_is_too_long_the_text_at_fault_is_named(
    path: str, body: dict[str, Any], firsts: list[int], param: str, length: int
) -> None:
    lengths = (3, 70, 4)
    told = {"rows": [{"ids": [1] * count} for count in lengths], "firsts": firsts}
    served = serving(ModelKind.RERANK, answered(b"{}"), tokenizer=answered(orjson.dumps(told)))
    answer = await served.client.post(path, body)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert f"'{param}' has {length} tokens" in answer.error["message"]


@pytest.mark.parametrize(
    ("kind", "path", "body", "said", "param"),
    [
        (ModelKind.EMBEDDING, "/v1/embeddings", {"input": "a"}, "rows.0", "input"),
        (ModelKind.EMBEDDING, "/v1/embeddings", {"input": ["a", "b"]}, "rows.1", "input.1"),
        (ModelKind.EMBEDDING, "/v1/embeddings", {"input": [7, 8]}, "rows.0", "input"),
        (ModelKind.EMBEDDING, "/pooling", {"input": [[7], [8]]}, "rows.1", "input.1"),
        (ModelKind.EMBEDDING, "/v1/embeddings", {"input": ["a", "b"]}, "rows", "input"),
        (ModelKind.EMBEDDING, "/v1/embeddings", {"messages": [{"role": "user", "content": "a"}]}, "rows.0", "messages"),
        (ModelKind.EMBEDDING, "/score", {"text_1": "a", "text_2": ["b", "c"]}, "rows.0", "text_1"),
        (ModelKind.EMBEDDING, "/score", {"text_1": "a", "text_2": ["b", "c"]}, "rows.2", "text_2.1"),
        (ModelKind.EMBEDDING, "/score", {"text_1": ["a", "b"], "text_2": ["c", "d"]}, "rows.1", "text_1.1"),
        (ModelKind.RERANK, "/score", {"text_1": "a", "text_2": ["b", "c"]}, "rows.1", "text_2.1"),
        (ModelKind.RERANK, "/score", {"text_1": "a", "text_2": "b"}, "rows.0", "text_2"),
        (ModelKind.RERANK, "/rerank", RANKED, "rows.2", "documents.2"),
        (ModelKind.RERANK, "/rerank", RANKED, "rows", "documents"),
        (ModelKind.CLASSIFY, "/classify", {"input": ["a", "b"]}, "rows.1", "input.1"),
        (ModelKind.CLASSIFY, "/classify", {"input": "a"}, "truncate_prompt_tokens", "truncate_prompt_tokens"),
        (ModelKind.CLASSIFY, "/classify", {"input": "a"}, None, None),
    ],
)
async def test_what_the_tokenizer_refuses_has_the_name_that_the_client_gave_it(
    kind: ModelKind, path: str, body: dict[str, Any], said: str | None, param: str | None
) -> None:
    served = serving(kind, answered(VECTORS), tokenizer=lambda _: refused(400, "No.", param=said))
    answer = await served.client.post(path, body)
    assert (answer.status, answer.error["param"], answer.error["message"]) == (400, param, "No.")


async def test_what_the_tokenizer_says_of_a_value_is_told_with_the_name_of_the_value() -> None:
    without = refused(400, "expected more", param="rows.1", code="invalid_value")
    served = serving(ModelKind.CLASSIFY, answered(VECTORS), tokenizer=lambda _: without)
    answer = await served.client.post("/classify", {"input": ["a", "b"]})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "input.1", "invalid_value")
    assert answer.error["message"] == "Invalid value for 'input.1': expected more."


@pytest.mark.parametrize(
    ("path", "kind", "changes"),
    [
        ("/rerank", ModelKind.RERANK, {"encoding_format": "base64"}),
        ("/rerank", ModelKind.RERANK, {"top_n": -1}),
        ("/rerank", ModelKind.RERANK, {"top_n": "-1"}),
        ("/rerank", ModelKind.RERANK, {"truncation": False, "truncate_prompt_tokens": 5}),
        ("/score", ModelKind.RERANK, {"encoding_format": "base64"}),
        ("/v1/embeddings", ModelKind.EMBEDDING, {"dimensions": 8}),
        ("/v1/embeddings", ModelKind.EMBEDDING, {"embed_dtype": "float16"}),
        ("/v1/embeddings", ModelKind.EMBEDDING, {"endianness": "big"}),
        ("/v1/embeddings", ModelKind.EMBEDDING, {"truncate_prompt_tokens": 65}),
        ("/v1/embeddings", ModelKind.EMBEDDING, {"continue_final_message": True}),
        ("/pooling", ModelKind.EMBEDDING, {"dimensions": 8}),
        ("/pooling", ModelKind.EMBEDDING, {"task": "classify"}),
    ],
)
async def test_what_cannot_be_obeyed_is_refused(path: str, kind: ModelKind, changes: dict[str, Any]) -> None:
    good = {ModelKind.EMBEDDING: {"input": "a"}, ModelKind.RERANK: {"text_1": "a", "text_2": "b"}, "/rerank": RANKED}
    answer = await serving(kind, answered(b"{}")).client.post(path, {**good.get(path, good[kind]), **changes})
    assert (answer.status, answer.error["param"]) == (400, next(iter(changes)))


@pytest.mark.parametrize(
    ("changes", "cut"),
    [
        ({}, None),
        ({"truncation": True}, 64),
        ({"truncation": True, "truncate_prompt_tokens": 5}, 5),
        ({"max_tokens_per_doc": 7}, 64),
        ({"max_tokens_per_doc": 7, "truncation": False}, None),
    ],
)
async def test_a_pair_that_is_too_long_is_cut_or_refused_as_the_request_says(
    changes: dict[str, Any], cut: int | None
) -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":[[1.0],[2.0],[3.0]]}'))
    assert (await served.client.post("/rerank", {**RANKED, **changes})).status == 200
    assert from_json(PrepareRowsRequest, served.upstream.posts[0].body).truncate == cut


@pytest.mark.parametrize(("asked", "scaled"), [(None, False), (False, False), (True, True)])
async def test_the_vectors_of_tokens_are_scaled_where_a_request_says_so(asked: bool | None, scaled: bool) -> None:
    served = serving(ModelKind.EMBEDDING, answered(b'{"data":[]}'), profile=EncoderProfile(normalize=True))
    await served.client.post("/pooling", {"input": "hi"} | ({} if asked is None else {"normalize": asked}))
    assert served.upstream.sent(ENCODE_PATH)[0]["normalize"] is scaled


@pytest.mark.parametrize(("path", "body"), [("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})])
async def test_a_client_that_hangs_up_ends_its_tokenizing(path: str, body: dict[str, object]) -> None:
    never = asyncio.Event()
    inner = {"/tokenize": TOKENIZE_PATH, "/detokenize": DETOKENIZE_PATH}[path]
    served = gateway({inner: lambda _: FakeAnswer(pieces=(never,))})
    asked = asyncio.create_task(served.client.post(path, body))
    await served.upstream.asked(inner).wait()
    served.client.hang_up()
    await asyncio.wait_for(asked, 60)
    assert served.upstream.open == 0


async def test_the_tokenizer_continues_the_trace_of_a_detokenization() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    served = gateway({DETOKENIZE_PATH: answered(b'{"prompt":"a"}')}, spans=OtlpTracer(provider))
    await served.client.post("/detokenize", {"tokens": [1]})
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"detokenize", "tokenize"}
    (post,) = served.upstream.posts
    assert dict(post.headers)[b"traceparent"][36:52].decode() == f"{spans['tokenize'].context.span_id:016x}"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/tokenize"])
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(path: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS))
    answer = await served.client.post(path, b"{}", [(b"content-length", b"99999999")])
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")


async def test_another_engine_is_asked_where_the_worker_says_so() -> None:
    def once(post: Any) -> Any:
        first = orjson.loads(post.body)["target"]["address"] == ENGINE
        return refused(503, "gone", retryable=True) if first else answered(VECTORS)(post)

    served = serving(ModelKind.EMBEDDING, once, engines=(Engine(grpc=ENGINE), Engine(grpc=OTHER)))
    answers = [await served.client.post("/v1/embeddings", {"input": "hi"}) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]


@pytest.mark.parametrize("count", [2, 1000])
async def test_each_worker_that_is_asked_gets_all_rows(count: int) -> None:
    answers = iter([refused(503, "gone", retryable=True), refused(503, "gone")])
    served = serving(
        ModelKind.EMBEDDING,
        lambda _: next(answers),
        *[60] * count,
        engines=(Engine(grpc=ENGINE), Engine(grpc=OTHER)),
    )
    await served.client.post("/v1/embeddings", {"input": "hi"})
    asked = served.upstream.sent(ENCODE_PATH)
    assert sorted(message["target"]["address"] for message in asked) == sorted([ENGINE, OTHER])
    row = {"ids": list(range(1, 61)), "second": None, "picture": None, "pictures": []}
    assert all(message["rows"] == [row] * count for message in asked)


async def test_so_many_tokens_that_nobody_could_answer_in_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_TOKENS", 10)
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), 5, 6)
    answer = await served.client.post("/v1/embeddings", {"input": ["a", "b"]})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "input", "too_complex")
    assert served.upstream.sent(ENCODE_PATH) == []


@pytest.mark.parametrize("body", [b"", b"[1]", b"<html>"])
async def test_what_is_no_object_is_no_vector(body: bytes) -> None:
    answer = await serving(ModelKind.EMBEDDING, answered(body)).client.post("/v1/embeddings", {"input": "hi"})
    assert (answer.status, answer.error["type"]) == (502, "server_error")


async def test_what_a_worker_refuses_has_the_name_that_the_client_gave_it() -> None:
    served = serving(
        ModelKind.EMBEDDING, lambda _: refused(400, "too long", param="rows.1", code="invalid_value"), 3, 3
    )
    answer = await served.client.post("/v1/embeddings", {"input": ["a", "b"]})
    assert (answer.status, answer.error["param"], answer.error["message"]) == (400, "input.1", "too long")


async def test_an_answer_that_is_none_is_a_502() -> None:
    served = serving(ModelKind.RERANK, answered(b'{"rows":3'))
    answer = await served.client.post("/rerank", {"query": "q", "documents": ["a"]})
    assert (answer.status, answer.error["type"]) == (502, "server_error")


async def test_a_tokenizer_that_gives_no_row_is_not_taken_at_its_word() -> None:
    model = route(served_names=("enc",), kind=ModelKind.EMBEDDING, dialect=Dialect.ENCODER)
    served = gateway({PREPARE_ROWS_PATH: answered(b'{"rows":[]}')}, known=snapshot(model))
    answer = await served.client.post("/v1/embeddings", {"model": "enc", "input": "hi"})
    assert (answer.status, orjson.loads(answer.body)["error"]["message"]) == (503, "No tokenizer answered.")
