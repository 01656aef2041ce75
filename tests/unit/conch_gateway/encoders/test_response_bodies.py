import base64
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from conch_gateway.encoders.request_rows import Head
from conch_gateway.encoders.response_bodies import BYTES, METADATA, embedded, pooled, scores
from conch_kit.errors import UpstreamError

HEAD = Head(id="embd-1", created=1, model="m", tokens=7)


def asked(encoding_format: str) -> Any:
    return SimpleNamespace(encoding_format=encoding_format, embed_dtype=None, endianness=None)


@pytest.mark.parametrize(("makes", "key"), [(embedded, "embedding"), (pooled, "data")])
def test_bytes_go_one_behind_the_other_and_a_header_says_what_they_are(makes: Any, key: str) -> None:
    parts = [base64.b64encode(part).decode() for part in (b"ab", b"cdef")]
    vectors = [{"index": index, "shape": [2], key: part} for index, part in enumerate(parts)]
    body = makes(asked("bytes"))(HEAD, orjson.dumps({"data": vectors}))
    headers = dict(body.headers)
    assert (body.content, headers[BYTES[0]]) == (b"abcdef", BYTES[1])
    assert [(one["start"], one["end"]) for one in orjson.loads(headers[METADATA])["data"]] == [(0, 2), (2, 6)]


@pytest.mark.parametrize("makes", [embedded, pooled])
def test_vectors_pass_behind_what_the_gateway_adds(makes: Any) -> None:
    body = makes(asked("float"))(HEAD, b'{"data":[1.50]}')
    assert body.content.endswith(b',"data":[1.50]}')
    assert orjson.loads(body.content)["usage"]["prompt_tokens"] == 7
    with pytest.raises(UpstreamError, match="not a list of vectors"):
        makes(asked("float"))(HEAD, b'{"rows":[]}')


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"<html>", "not a list of vectors"),
        (b'{"rows":[]}', "not a list of vectors"),
        (b'{"data":1}', "not a list of vectors"),
        (b'{"data":[{"index":0,"embedding":""}]}', "does not say what its vectors look like"),
    ],
)
def test_an_answer_without_vectors_is_a_fault_behind_the_gateway(answer: bytes, says: str) -> None:
    with pytest.raises(UpstreamError, match=says):
        embedded(asked("bytes"))(HEAD, answer)


@pytest.mark.parametrize("answer", [b"<html>", b'{"data":[]}', b"1"])
def test_an_answer_without_scores_is_a_fault_behind_the_gateway(answer: bytes) -> None:
    with pytest.raises(UpstreamError, match="not a list of scores"):
        scores(HEAD, answer)
