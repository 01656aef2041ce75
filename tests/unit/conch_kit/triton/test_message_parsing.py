"""What an engine's message may hold beside its tensors, measured before anything is parsed."""

from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from conch_kit.triton import message_parsing
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES
from conch_kit.triton.message_parsing import (
    MAX_FIELDS,
    SMALL_BYTES,
    MessageTooLarge,
    infer_response,
    stream_response,
)


def answer(packed: int = 4 * MAX_CONTROL_BYTES, name: str = "out") -> ModelInferResponse:
    """Return an answer with one output."""
    response = ModelInferResponse(model_name="m", model_version="1", id="7", raw_output_contents=[bytes(packed)])
    response.outputs.add(name=name, datatype="FP32", shape=[1, packed // 4])
    response.parameters["final"].bool_param = True
    return response


def streamed(**fields: object) -> bytes:
    """Return a message of a stream."""
    message: bytes = ModelStreamInferResponse(**fields).SerializeToString()
    return message


@pytest.mark.parametrize("packed", [0, SMALL_BYTES, 4 * MAX_CONTROL_BYTES])
def test_tensors_of_any_size_are_read(packed: int) -> None:
    whole = answer(packed)
    assert infer_response(whole.SerializeToString()) == whole
    assert stream_response(streamed(infer_response=whole)).infer_response == whole


@pytest.mark.parametrize(
    "message",
    [
        b"\x2a\x00" * (MAX_FIELDS * 4),
        b"\x32\x00" * (MAX_FIELDS * 4),
        b"\x0a\x00" * (MAX_FIELDS * 4),
        answer(name="x" * MAX_CONTROL_BYTES).SerializeToString(),
    ],
    ids=["outputs", "empty tensors", "names again and again", "one long name"],
)
def test_what_would_grow_or_is_no_tensor_is_not_parsed(message: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("ModelInferResponse", "ModelStreamInferResponse"):
        monkeypatch.setattr(message_parsing, kind, None)  # parsing it would fail
    with pytest.raises(MessageTooLarge):
        infer_response(message)
    with pytest.raises(MessageTooLarge):
        stream_response(b"\x12" + _varint(len(message)) + message)


def test_a_long_error_and_answers_in_pieces_count_together() -> None:
    with pytest.raises(MessageTooLarge):
        stream_response(streamed(error_message="x" * (MAX_CONTROL_BYTES + 1)))
    half = answer(name="x" * (MAX_CONTROL_BYTES // 2)).SerializeToString()
    piece = b"\x12" + _varint(len(half)) + half
    assert stream_response(piece).infer_response.outputs[0].datatype == "FP32"
    with pytest.raises(MessageTooLarge):
        stream_response(piece * 3)


@pytest.mark.parametrize("end", [b"\x0a\xff\xff\xff\xff\x0f", b"\x0a", b"\x0b", b"\x0d\x00", b"\xff" * 11], ids=str)
def test_what_is_no_message_is_told(end: bytes) -> None:
    with pytest.raises(DecodeError):
        infer_response(answer(SMALL_BYTES).SerializeToString() + end)


@given(st.binary(max_size=60))
def test_whatever_comes_ends_as_a_message_or_as_one_of_the_errors(end: bytes) -> None:
    for parse, begin in (
        (infer_response, answer(SMALL_BYTES).SerializeToString()),
        (stream_response, streamed(infer_response=answer(SMALL_BYTES))),
    ):
        with suppress(DecodeError, MessageTooLarge):
            parse(begin + end)


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value >= 0x80:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*pieces, value))
