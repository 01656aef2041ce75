import base64
import struct
from typing import Any

import numpy as np
import orjson
import pytest

from conch_contracts.messages.encoding import EncodeRequest, EncoderTarget, Row, Task
from conch_contracts.names import EngineAddress
from conch_contracts.records import Activation
from conch_embed_worker.answer_bodies import answer
from conch_kit.errors import InvalidRequest, UpstreamError

VECTORS = [np.array([3, 4], np.float32), np.array([0, 2], np.float32)]


def request(task: Task, **changes: Any) -> EncodeRequest:
    target = EncoderTarget(address=EngineAddress("127.0.0.1:1"), model="m")
    return EncodeRequest(request_id="r", target=target, task=task, rows=(Row(ids=(1,)),), **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [[0.6, 0.8], [0.0, 1.0]]),
        ({"normalize": False}, [[3.0, 4.0], [0.0, 2.0]]),
        ({"dimensions": 1}, [[1.0], [0.0]]),
    ],
)
def test_vectors_are_written_as_the_request_asks(changes: dict[str, Any], expected: list[list[float]]) -> None:
    data = orjson.loads(answer(request(Task.EMBED, **changes), VECTORS))["data"]
    assert [(item["object"], item["index"]) for item in data] == [("embedding", 0), ("embedding", 1)]
    np.testing.assert_allclose([item["embedding"] for item in data], expected, atol=1e-7)


def test_base64_is_that_of_little_endian_floats() -> None:
    data = orjson.loads(answer(request(Task.EMBED, base64=True, normalize=False), VECTORS))["data"]
    assert struct.unpack("<2f", base64.b64decode(data[0]["embedding"])) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("dtype", "big_endian", "expected"),
    [
        ("float32", True, struct.pack(">2f", 3, -0.5)),
        ("float16", False, struct.pack("<2e", 3, -0.5)),
        ("float16", True, struct.pack(">2e", 3, -0.5)),
        ("bfloat16", False, bytes.fromhex("404000bf")),
        ("bfloat16", True, bytes.fromhex("4040bf00")),
        ("fp8_e4m3", False, bytes.fromhex("44b0")),
        ("fp8_e5m2", True, bytes.fromhex("42b8")),
    ],
)
def test_numbers_are_packed_as_the_request_asks(dtype: Any, big_endian: bool, expected: bytes) -> None:
    asked = request(Task.EMBED, base64=True, normalize=False, dtype=dtype, big_endian=big_endian, shapes=True)
    (item,) = orjson.loads(answer(asked, [np.array([3, -0.5], np.float32)]))["data"]
    assert (base64.b64decode(item["embedding"]), item["shape"]) == (expected, [2])


@pytest.mark.parametrize("dtype", ["float16", "fp8_e4m3", "fp8_e5m2"])
def test_numbers_that_a_type_cannot_hold_are_the_clients_fault(dtype: Any) -> None:
    with pytest.raises(InvalidRequest, match="too large") as caught:
        answer(request(Task.EMBED, base64=True, normalize=False, dtype=dtype), [np.array([1e9, 1], np.float32)])
    assert caught.value.param == "embed_dtype"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("float", [0.5, -1.0, 0.0, 0.25, 0.5, -0.5, 0.0, 1.0]),
        ("base64", base64.b64encode(struct.pack("<8f", 0.5, -1, 0, 0.25, 0.5, -0.5, 0, 1)).decode()),
        ("int8", [64, -127, 0, 32, 64, -64, 0, 127]),
        ("uint8", [192, 1, 128, 160, 192, 64, 128, 255]),
        ("ubinary", [0b10111011]),
        ("binary", [0b10111011 - 128]),
    ],
)
def test_a_vector_has_each_form_that_is_asked_for(kind: Any, expected: Any) -> None:
    vector = np.array([0.5, -1, 0, 0.25, 0.5, -0.5, 0, 1], np.float32)
    zeros = np.zeros(8, np.float32)
    body = answer(request(Task.EMBED, normalize=False, types=(kind, "float")), [vector, zeros])
    forms = orjson.loads(body)["embeddings"]
    assert set(forms) == {kind, "float"}
    assert (forms[kind][0], len(forms[kind])) == (expected, 2)


def test_signs_that_fill_no_byte_and_more_forms_than_an_answer_holds_are_refused() -> None:
    for types, vectors, code in (
        (("binary",), VECTORS, "invalid_value"),
        (("float", "base64"), [np.broadcast_to(np.float32(1), (1 << 23,))], "too_complex"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            answer(request(Task.EMBED, normalize=False, types=types), vectors)
        assert (caught.value.param, caught.value.code) == ("embedding_types", code)


def test_what_the_task_gives_is_written_as_pooling_does() -> None:
    scores = answer(request(Task.SCORE, activation=Activation.SIGMOID, pooled=True), [np.array([0], np.float32)])
    assert orjson.loads(scores) == {"data": [{"object": "pooling", "index": 0, "data": [0.5]}]}
    vectors = orjson.loads(answer(request(Task.EMBED, normalize=False, pooled=True), VECTORS))["data"]
    assert vectors[1] == {"object": "pooling", "index": 1, "data": [0.0, 2.0]}
    of_tokens = request(Task.POOL, normalize=False, activation=Activation.SIGMOID)
    tokens = orjson.loads(answer(of_tokens, [np.zeros((2, 1), np.float32)]))["data"]
    assert tokens[0]["data"] == [[0.5], [0.5]]


def test_numbers_of_tokens_that_a_model_does_not_give_are_the_clients_fault() -> None:
    with pytest.raises(InvalidRequest, match="whole text") as caught:
        answer(request(Task.POOL), VECTORS)
    assert caught.value.param == "task"


def test_classes_of_a_text_that_a_model_gives_for_its_tokens_only_are_the_clients_fault() -> None:
    with pytest.raises(InvalidRequest, match="'token_classify'") as caught:
        answer(request(Task.SCORE, pooled=True), [np.ones((2, 3), np.float32)])
    assert caught.value.param == "task"


def test_pooling_gives_a_vector_for_each_token() -> None:
    tokens = np.array([[1, 0], [0, 5]], np.float32)
    data = orjson.loads(answer(request(Task.POOL, normalize=False), [tokens]))["data"]
    assert data == [{"object": "pooling", "index": 0, "data": [[1.0, 0.0], [0.0, 5.0]]}]


def test_a_tokens_vector_is_shortened_before_it_is_scaled() -> None:
    tokens = np.array([[2, 9], [-3, 5]], np.float32)
    data = orjson.loads(answer(request(Task.POOL, dimensions=1), [tokens]))["data"]
    assert data[0]["data"] == [[1.0], [-1.0]]


@pytest.mark.parametrize("in_base64", [False, True])
def test_the_vectors_of_too_many_tokens_are_refused_before_they_are_written(in_base64: bool) -> None:
    tokens = np.broadcast_to(np.array([1], np.float32), (16 * 1024, 1024))
    with pytest.raises(InvalidRequest, match="found 16777216") as caught:
        answer(request(Task.POOL, base64=in_base64), [tokens])
    assert caught.value.code == "too_complex"


@pytest.mark.parametrize("number", [-1.23456789e-5, -1.23456789e-38, -123456789012345.0])
def test_a_number_takes_no_more_than_it_is_reckoned_with(number: float) -> None:
    body = answer(request(Task.POOL, normalize=False), [np.full((1, 1000), number, np.float32)])
    assert len(body) < 17 * 1000 + 100


def test_scores_are_rows() -> None:
    body = answer(request(Task.SCORE, activation=Activation.SIGMOID), [np.array([0], np.float32)])
    assert orjson.loads(body) == {"rows": [[0.5]]}


def test_similarity_is_the_cosine() -> None:
    body = answer(request(Task.SIMILARITY, firsts=1), VECTORS)
    np.testing.assert_allclose(orjson.loads(body)["rows"], [[0.8]], atol=1e-6)


@pytest.mark.parametrize(("task", "results"), [(Task.EMBED, VECTORS), (Task.POOL, [np.ones((4, 2), np.float32)])])
def test_more_dimensions_than_there_are_is_the_clients_fault(task: Task, results: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match="2 dimensions"):
        answer(request(task, dimensions=3), results)


@pytest.mark.parametrize(
    ("task", "numbers"),
    [(Task.EMBED, [[np.nan, 1]]), (Task.SCORE, [[np.inf]]), (Task.SCORE, [[[1.0, 2.0]]])],
)
def test_numbers_that_cannot_be_an_answer_are_the_engines_fault(task: Task, numbers: list[Any]) -> None:
    with pytest.raises(UpstreamError):
        answer(request(task), [np.array(each, np.float32) for each in numbers])
