"""Texts and pictures as rows, in all the forms that clients send, for a model that makes vectors of both."""

from typing import Any

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH
from conch_contracts.records import Dialect, EncoderProfile, ModelKind, PictureProfile
from testkit.gateway.encoders import FakeStore, serving
from testkit.gateway.fakes import Gateway, answered, gateway, route, snapshot

VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'
SCORES = b'{"rows":[[0.25],[0.75]]}'
SEEN = {"pixels": "QUJD", "height": 1, "width": 1, "scale": [1, 1, 1], "shift": [0, 0, 0], "length": 65}
SEES = PictureProfile(max=1, max_bytes=6)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(data: str = "QUJD") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def parts(*given: dict[str, Any]) -> dict[str, Any]:
    return {"content": list(given)}


def user(*given: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(given)}


def seeing(worker: bytes = VECTORS, count: int = 1, *, sees: PictureProfile | None = SEES) -> Gateway:
    told = orjson.dumps({"rows": [{"ids": [], "picture": SEEN}] * count})
    return serving(ModelKind.EMBEDDING, answered(worker), tokenizer=answered(told), sees=sees)


async def prepared(served: Gateway, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await served.client.post(path, body)
    assert answer.status == 200, answer.body
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    return preparation


NAME = "messages.0.content.0.image_url"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling"])
async def test_a_conversation_may_show_one_picture(path: str) -> None:
    served = seeing()
    preparation = await prepared(served, path, {"messages": [user(image())]})
    assert (preparation["chat"], preparation["texts"]) == (None, [None])
    assert preparation["pictures"] == [{"data": "QUJD", "param": NAME}]
    assert preparation["picture_limits"] == {"max": 1, "max_pixels": 33_000_000, "max_bytes": 6}
    (asked,) = served.upstream.sent(ENCODE_PATH)
    assert asked["rows"] == [{"ids": [], "second": None, "picture": SEEN, "pictures": []}]
    assert asked["task"] == "embed"


async def test_a_picture_counts_the_positions_that_the_model_makes_of_it() -> None:
    found = await seeing().client.post("/v1/embeddings", {"messages": [user(image())]})
    assert orjson.loads(found.body)["usage"]["prompt_tokens"] == 65


async def test_texts_of_a_conversation_are_read_as_they_are() -> None:
    messages = [user(text("a red"), text("7")), {"role": "user", "content": "!"}]
    preparation = await prepared(seeing(), "/v1/embeddings", {"messages": messages})
    assert (preparation["chat"], preparation["texts"], preparation["add_special_tokens"]) == (None, ["a red\n7!"], True)


@pytest.mark.parametrize(
    ("path", "body", "texts", "names"),
    [
        (
            "/score",
            {"text_1": "a", "text_2": parts(image(), image())},
            ["a", None, None],
            ["text_2.content.0.image_url", "text_2.content.1.image_url"],
        ),
        (
            "/score",
            {"text_1": parts(image()), "text_2": ["b", parts(text("c"), text("d"))]},
            [None, "b", "c\nd"],
            ["text_1.content.0.image_url"],
        ),
        (
            "/score",
            {"queries": parts(text("a")), "documents": [parts(image()), parts(text(""), image())]},
            ["a", None, None],
            ["documents.0.content.0.image_url", "documents.1.content.1.image_url"],
        ),
        (
            "/rerank",
            {"query": parts(image()), "documents": parts(text("b"), image())},
            [None, "b", None],
            ["query.content.0.image_url", "documents.content.1.image_url"],
        ),
        (
            "/rerank",
            {"query": "a", "documents": [{"text": "b"}, parts(image())]},
            ["a", "b", None],
            ["documents.1.content.0.image_url"],
        ),
    ],
)
async def test_a_lone_content_is_a_row_for_each_part_and_one_in_a_list_is_one_row(
    path: str, body: dict[str, Any], texts: list[str | None], names: list[str]
) -> None:
    preparation = await prepared(seeing(SCORES, 3), path, body)
    assert preparation["texts"] == texts
    assert [picture["param"] for picture in preparation["pictures"]] == names


async def test_a_ranking_gives_documents_back_as_they_came() -> None:
    body = {"query": "a", "documents": ["b", parts(image())]}
    found = orjson.loads((await seeing(SCORES, 3).client.post("/rerank", body)).body)
    assert [result["document"] for result in found["results"]] == [{"multi_modal": [image()]}, {"text": "b"}]
    assert ["text" in result for result in found["data"]] == [False, True]


async def test_coheres_inputs_may_be_pictures() -> None:
    worker = b'{"embeddings":{"float":[[1.0],[2.0]]}}'
    served = seeing(worker, 2)
    body = {"inputs": [parts(text("a")), parts(image())], "input_type": "image"}
    found = orjson.loads((await served.client.post("/v2/embed", body)).body)
    assert found["texts"] == ["a"]
    (preparation,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (preparation["texts"], preparation["pictures"][0]["param"]) == (
        ["a", None],
        "inputs.1.content.0.image_url",
    )


@pytest.mark.parametrize(
    ("path", "body", "param", "said"),
    [
        ("/v1/embeddings", {"messages": [user(text("a"), image())]}, "messages.0.content.1.image_url", "found both"),
        ("/v1/embeddings", {"messages": [user(image()), user(text("a"))]}, NAME, "found both"),
        (
            "/v1/embeddings",
            {"messages": [user(image(), image())]},
            "messages.0.content.1.image_url",
            "At most 1 image may be provided in one prompt.",
        ),
        ("/v1/embeddings", {"messages": [user(image("QUJDREVGRw=="))]}, NAME, "at most 6 bytes, found 7"),
        (
            "/v1/embeddings",
            {"messages": [user(image())], "add_generation_prompt": True},
            "add_generation_prompt",
            "no chat template",
        ),
        ("/score", {"text_1": "a", "text_2": [parts(text("b"), image())]}, "text_2.0.content.1.image_url", "both"),
        ("/rerank", {"query": parts(image(), image()), "documents": ["a"]}, "query.content.1.image_url", "At most 1"),
        ("/pooling", {"messages": [user(image())], "task": "token_embed"}, "task", "takes embed"),
    ],
)
async def test_what_is_no_row_names_the_part(path: str, body: dict[str, Any], param: str, said: str) -> None:
    answer = await seeing(SCORES, 2).client.post(path, body)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert said in answer.error["message"]


async def test_a_picture_that_comes_again_is_answered_from_the_cache() -> None:
    seen = [orjson.dumps({"rows": [{"ids": [], "picture": {**SEEN, "pixels": pixels}}]}) for pixels in ("QUJD", "QUJE")]
    told = iter([seen[0], seen[0], seen[1]])
    served = serving(
        ModelKind.EMBEDDING,
        answered(VECTORS),
        tokenizer=lambda post: answered(next(told))(post),
        sees=SEES,
        profile=EncoderProfile(cache_ttl_s=60),
        store=FakeStore(),
    )
    answers = [await served.client.post("/v1/embeddings", {"messages": [user(image())]}) for _ in range(3)]
    assert [answer.headers[b"x-conch-cache"] for answer in answers] == [b"miss", b"hit", b"miss"]


async def test_a_picture_of_such_a_model_has_no_tokens_to_show() -> None:
    answer = await seeing().client.post("/tokenize", {"model": "enc", "messages": [user(text("a"), image())]})
    assert (answer.status, answer.error["param"]) == (400, "messages.0.content.1.image_url")
    assert "no tokens" in answer.error["message"]


@pytest.mark.parametrize(
    ("kind", "path", "body", "param"),
    [
        (ModelKind.EMBEDDING, "/score", {"text_1": parts(image()), "text_2": "a"}, "text_1.content.0.image_url"),
        (ModelKind.RERANK, "/score", {"text_1": "a", "text_2": [parts(image())]}, "text_2.0.content.0.image_url"),
        (ModelKind.RERANK, "/rerank", {"query": parts(image()), "documents": ["a"]}, "query.content.0.image_url"),
    ],
)
async def test_a_model_of_texts_says_so(kind: ModelKind, path: str, body: dict[str, Any], param: str) -> None:
    answer = await serving(kind, answered(SCORES), 1, 1).client.post(path, body)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, "unsupported_parameter")
    assert "the model takes text alone" in answer.error["message"]


AMONG_TEXTS = PictureProfile(max=2, max_bytes=6, among_texts=True)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling"])
async def test_a_model_that_reads_pictures_among_texts_gets_the_conversation_as_a_chat(path: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), sees=AMONG_TEXTS)
    messages = [user(text("Is"), image(), text("red?"), image("REVG"))]
    preparation = await prepared(served, path, {"messages": messages, "add_generation_prompt": True})
    chat = preparation["chat"]
    assert (preparation["texts"], preparation["pictures"], preparation["picture_scope"]) == ([], [], "all")
    assert preparation["picture_limits"] == {"max": 2, "max_pixels": 33_000_000, "max_bytes": 6}
    assert chat["part_lengths"] == {"0": [2, None, 4, None]}
    assert [one["data"] for one in chat["pictures"]] == ["QUJD", "REVG"]
    assert chat["add_generation_prompt"] is True


async def test_such_a_model_has_tokens_of_pictures_to_show() -> None:
    model = route(kind=ModelKind.EMBEDDING, dialect=Dialect.ENCODER, pictures=AMONG_TEXTS)
    served = gateway({TOKENIZE_PATH: answered(b'{"tokens":[1,9,9,2]}')}, known=snapshot(model))
    answer = await served.client.post("/tokenize", {"model": "tiny-chat", "messages": [user(text("Is"), image())]})
    assert (answer.status, orjson.loads(answer.body)["count"]) == (200, 4)
    (asked,) = served.upstream.sent(TOKENIZE_PATH)
    assert asked["chat"]["part_lengths"] == {"0": [2, None]}
    assert [one["data"] for one in asked["chat"]["pictures"]] == ["QUJD"]


async def test_such_a_model_has_vectors_of_single_tokens_too() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), sees=AMONG_TEXTS)
    await prepared(served, "/pooling", {"messages": [user(image())]})
    (asked,) = served.upstream.sent(ENCODE_PATH)
    assert asked["task"] == "pool"


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/score", {"text_1": "a", "text_2": parts(image())}, "text_2.content.0.image_url"),
        ("/rerank", {"query": "a", "documents": [parts(image())]}, "documents.0.content.0.image_url"),
        ("/v2/embed", {"inputs": [parts(image())]}, "inputs.0.content.0.image_url"),
        ("/v1/embeddings", {"messages": [user(image(), image(), image())]}, "messages.0.content.2.image_url"),
    ],
)
async def test_such_a_model_has_no_rows_of_pictures_alone(path: str, body: dict[str, Any], name: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), sees=AMONG_TEXTS)
    answer = await served.client.post(path, {"model": "enc", **body})
    assert (answer.status, answer.error["param"]) == (400, name)
    assert served.upstream.posts == []
