"""What embeddings and pooling are asked for beside plain vectors, through the ASGI application, on fakes."""

from typing import Any

import orjson
import pytest

from conch_contracts.messages.encoding import EncodeRequest
from conch_contracts.messages.message import from_json
from conch_contracts.names import ENCODE_PATH, PREPARE_ROWS_PATH
from conch_contracts.records import EncoderProfile, ModelKind
from testkit.gateway.encoders import serving
from testkit.gateway.fakes import answered, refused

VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'
PACKED = b'{"data":[{"index":0,"shape":[2],"embedding":"AAE="},{"index":1,"shape":[2],"embedding":"AgM="}]}'


@pytest.mark.parametrize("described", [True, False])
async def test_vectors_go_out_as_bytes_with_what_they_are_in_a_header(described: bool) -> None:
    served = serving(ModelKind.EMBEDDING, answered(PACKED), 3, 4)
    body = {
        "input": ["hi", "you"],
        "encoding_format": "bytes" if described else "bytes_only",
        "embed_dtype": "fp8_e4m3",
        "endianness": "big",
    }
    answer = await served.client.post("/v1/embeddings", body)
    assert (answer.status, answer.body) == (200, bytes(range(4)))
    assert answer.headers[b"content-type"] == b"application/octet-stream"
    message = from_json(EncodeRequest, served.upstream.posts[-1].body)
    assert (message.base64, message.dtype, message.big_endian, message.shapes) == (True, "fp8_e4m3", True, True)
    if not described:
        assert b"metadata" not in answer.headers
        return
    told = orjson.loads(answer.headers[b"metadata"])
    kind = {"embed_dtype": "fp8_e4m3", "endianness": "big", "shape": [2]}
    assert told["data"] == [{"index": 0, "start": 0, "end": 2, **kind}, {"index": 1, "start": 2, "end": 4, **kind}]
    assert told["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert (told["model"], told["id"][:5]) == ("enc", "embd-")


async def test_pooled_vectors_go_out_as_bytes_too() -> None:
    served = serving(ModelKind.EMBEDDING, answered(PACKED.replace(b'"embedding"', b'"data"')), 3, 4)
    answer = await served.client.post("/pooling", {"input": ["hi", "you"], "encoding_format": "bytes_only"})
    assert (answer.status, answer.body) == (200, bytes(range(4)))
    assert answer.headers[b"content-type"] == b"application/octet-stream"


async def test_a_worker_that_does_not_say_what_its_bytes_are_is_at_fault() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS))
    answer = await served.client.post("/v1/embeddings", {"input": "hi", "encoding_format": "bytes"})
    assert answer.status == 502


@pytest.mark.parametrize(
    ("kind", "task", "asked", "computed"),
    [
        (ModelKind.EMBEDDING, None, {}, {"task": "pool", "normalize": False}),
        (ModelKind.EMBEDDING, "token_embed", {"use_activation": True}, {"task": "pool", "normalize": True}),
        (ModelKind.EMBEDDING, "embed", {}, {"task": "embed", "normalize": True}),
        (ModelKind.EMBEDDING, "embed", {"normalize": False}, {"task": "embed", "normalize": False}),
        (ModelKind.CLASSIFY, None, {}, {"task": "score", "activation": "sigmoid"}),
        (ModelKind.CLASSIFY, "classify", {"use_activation": False}, {"task": "score", "activation": "none"}),
        (ModelKind.CLASSIFY, None, {"activation": False}, {"task": "score", "activation": "none"}),
        (ModelKind.EMBEDDING, "embed", {"activation": False}, {"task": "embed", "normalize": False}),
        (ModelKind.CLASSIFY, "token_classify", {}, {"task": "pool", "activation": "sigmoid", "normalize": False}),
    ],
)
async def test_a_pooling_task_is_what_the_worker_is_asked_for(
    kind: ModelKind, task: str | None, asked: dict[str, Any], computed: dict[str, Any]
) -> None:
    worker = answered(b'{"data":[{"object":"pooling","index":0,"data":[0.5]}]}')
    served = serving(kind, worker)
    answer = await served.client.post("/pooling", {"input": "a", "task": task, **asked})
    assert orjson.loads(answer.body)["data"] == [{"object": "pooling", "index": 0, "data": [0.5]}]
    (sent,) = served.upstream.sent(ENCODE_PATH)
    assert {name: sent[name] for name in computed} == computed
    assert sent["pooled"]


@pytest.mark.parametrize(
    ("kind", "changes", "param"),
    [
        (ModelKind.EMBEDDING, {"task": "classify"}, "task"),
        (ModelKind.EMBEDDING, {"task": "score"}, "task"),
        (ModelKind.CLASSIFY, {"task": "embed"}, "task"),
        (ModelKind.CLASSIFY, {"normalize": True}, "normalize"),
        (ModelKind.CLASSIFY, {"dimensions": 2}, "dimensions"),
        (ModelKind.CLASSIFY, {"activation": False, "use_activation": True}, "use_activation"),
        (ModelKind.EMBEDDING, {"activation": False, "normalize": True}, "activation"),
        (ModelKind.EMBEDDING, {"embed_dtype": "float16"}, "embed_dtype"),
        (ModelKind.EMBEDDING, {"encoding_format": "float", "endianness": "big"}, "endianness"),
        (ModelKind.EMBEDDING, {"encoding_format": "bytes", "input": ["a"] * 257}, "encoding_format"),
    ],
)
async def test_what_pooling_cannot_do_is_named(kind: ModelKind, changes: dict[str, Any], param: str) -> None:
    served = serving(kind, answered(VECTORS))
    answer = await served.client.post("/pooling", {"input": "a", **changes})
    assert (answer.status, answer.error["param"]) == (400, param)


TEXT_PART = {"content": [{"type": "text", "text": ""}, {"type": "text", "text": "hi"}]}
EMPTY_PARTS = {"content": [{"type": "text", "text": ""}, {"type": "text", "text": ""}]}
TYPED = b'{"embeddings":{"float":[[1.0,0.0]],"int8":[[127,0]]}}'
CUTS: list[tuple[dict[str, Any], int | None, str]] = [
    ({}, 64, "right"),
    ({"truncate": "START", "max_tokens": 5}, 5, "left"),
    ({"truncate": "END", "max_tokens": 1000}, 64, "right"),
    ({"truncate": "NONE"}, None, "right"),
]


@pytest.mark.parametrize(("changes", "cut", "side"), CUTS)
async def test_vectors_come_in_the_types_of_cohere(changes: dict[str, Any], cut: int | None, side: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(TYPED), profile=EncoderProfile(matryoshka=True))
    asked = {"texts": ["hi"], "embedding_types": ["float", "int8", "int8"], "output_dimension": 2, **changes}
    body = orjson.loads((await served.client.post("/v2/embed", {"model": "enc", **asked})).body)
    assert body.pop("id").startswith("embd-")
    assert body == {
        "response_type": "embeddings_by_type",
        "texts": ["hi"],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 3}},
        "embeddings": {"float": [[1.0, 0.0]], "int8": [[127, 0]]},
    }
    (rows,) = served.upstream.sent(PREPARE_ROWS_PATH)
    assert (rows["texts"], rows["truncate"], rows["truncation_side"]) == (["hi"], cut, side)
    (encoded,) = served.upstream.sent(ENCODE_PATH)
    assert (encoded["types"], encoded["dimensions"]) == (["float", "int8"], 2)


async def test_texts_in_parts_are_embedded_as_one_each() -> None:
    served = serving(ModelKind.EMBEDDING, answered(b'{"embeddings":{"float":[[1.0]]}}'))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answer = await served.client.post("/v2/embed", {"inputs": [{"content": parts}], "input_type": "search_query"})
    assert orjson.loads(answer.body)["texts"] == ["a\nb"]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"texts": None}, "texts"),
        ({"texts": []}, "texts"),
        ({"inputs": [{"content": [{"type": "text", "text": "a"}]}]}, "inputs"),
        ({"images": ["data:image/png;base64,AA=="]}, "images"),
        ({"input_type": "image"}, "input_type"),
        ({"embedding_types": ["int4"]}, "embedding_types.0"),
        ({"embedding_types": []}, "embedding_types"),
        ({"output_dimension": 2}, "output_dimension"),
        ({"truncate": "MIDDLE"}, "truncate"),
        ({"truncate": "NONE", "max_tokens": 2}, "texts.0"),
        ({"texts": ["hi", ""]}, "texts.1"),
        ({"texts": None, "inputs": [TEXT_PART, EMPTY_PARTS]}, "inputs.1.content"),
        ({"truncate_prompt_tokens": 1}, "truncate_prompt_tokens"),
        ({"dimensions": 10}, "dimensions"),
        ({"normalize": False}, "normalize"),
    ],
)
async def test_a_bad_request_of_coheres_kind_names_its_parameter(changes: dict[str, Any], param: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(TYPED))
    answer = await served.client.post("/v2/embed", {"texts": ["hi"], **changes})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert served.upstream.sent(ENCODE_PATH) == []


async def test_a_cut_without_room_has_the_name_that_the_client_gave_it() -> None:
    refusal = refused(400, "expected room", param="truncate_prompt_tokens", code="invalid_value")
    served = serving(ModelKind.EMBEDDING, answered(TYPED), tokenizer=lambda _: refusal)
    answer = await served.client.post("/v2/embed", {"texts": ["hi"], "max_tokens": 1})
    assert (answer.status, answer.error["param"]) == (400, "max_tokens")
    assert answer.error["message"] == "Invalid value for 'max_tokens': expected room."


async def test_who_sends_too_long_a_text_is_told_what_cuts_it_here() -> None:
    served = serving(ModelKind.EMBEDDING, answered(TYPED), 65)
    answer = await served.client.post("/v2/embed", {"texts": ["hi"], "truncate": "NONE"})
    assert answer.error["message"].endswith("or set 'truncate' to START or END.")
    answer = await served.client.post("/v1/embeddings", {"input": "hi"})
    assert answer.error["message"].endswith("or set 'truncate_prompt_tokens'.")


async def test_what_the_worker_refuses_has_the_name_that_the_client_gave_it() -> None:
    refusal = refused(400, "2 dimensions.", param="dimensions", code="invalid_value")
    served = serving(ModelKind.EMBEDDING, lambda _: refusal, profile=EncoderProfile(matryoshka=True))
    answer = await served.client.post("/v2/embed", {"texts": ["hi"], "output_dimension": 9})
    assert (answer.status, answer.error["param"]) == (400, "output_dimension")
