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
    [(Task.EMBED, [[np.nan, 1]]), (Task.SCORE, [[np.inf]]), (Task.SCORE, [[[1.0, 2.0]]]), (Task.POOL, [[1.0, 2.0]])],
)
def test_numbers_that_cannot_be_an_answer_are_the_engines_fault(task: Task, numbers: list[Any]) -> None:
    with pytest.raises(UpstreamError):
        answer(request(task), [np.array(each, np.float32) for each in numbers])
