"""Reads an engine's messages, but for those that would take far more memory than their bytes once they are parsed.

Packed tensors take what they have, everything else up to 44 times as much: two bytes are an output without a name. So
what is beside the tensors is measured before anything is parsed. In small messages it cannot be much.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from conch_kit.triton.message_limits import MAX_CONTROL_BYTES

SMALL_BYTES = 64 * 1024
"""A message of this size is parsed unseen."""
MAX_FIELDS = 10_000
"""Of a larger one; an answer has a few for each of its outputs."""

_INFER_RESPONSE: Final = ModelStreamInferResponse.DESCRIPTOR.fields_by_name["infer_response"].number
_PACKED: Final = ModelInferResponse.DESCRIPTOR.fields_by_name["raw_output_contents"].number


class MessageTooLarge(Exception):
    """The engine's message is longer than is taken, or would be once it is parsed."""


def infer_response(message: bytes) -> ModelInferResponse:
    """Return the answer of a model that answers once; raises MessageTooLarge and DecodeError."""
    if len(message) > SMALL_BYTES:
        _check(_of_answer(memoryview(message)))
    return ModelInferResponse.FromString(message)


def stream_response(message: bytes) -> ModelStreamInferResponse:
    """Return one message of a stream; raises MessageTooLarge and DecodeError."""
    if len(message) > SMALL_BYTES:
        _check(_of_stream_message(memoryview(message)))
    return ModelStreamInferResponse.FromString(message)


def _check(sizes: Iterator[int]) -> None:
    """Add up the fields' sizes, no further than to the limit: there may be millions."""
    beside = 0
    for fields, size in enumerate(sizes, 1):
        beside += size
        if beside > MAX_CONTROL_BYTES or fields > MAX_FIELDS:
            raise MessageTooLarge("The engine's answer holds far more than its tensors.")


def _of_stream_message(message: memoryview) -> Iterator[int]:
    return chain.from_iterable(
        _of_answer(content) if number == _INFER_RESPONSE else (size,) for number, size, content in _fields(message)
    )


def _of_answer(message: memoryview) -> Iterator[int]:
    return (0 if number == _PACKED else size for number, size, _ in _fields(message))


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Give each field's number, its size and, where it has a length, its content.

    The shapes are those of protobuf.dev/programming-guides/encoding.
    """
    at = 0
    while at < len(message):
        begin = at
        tag, at = _varint(message, at)
        start = at
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                size, start = _varint(message, at)
                at = start + size
            case 5:
                at += 4
            case _:
                raise DecodeError("A field is of a kind that nobody sends.")
        if at > len(message):
            raise DecodeError("A field is longer than its message.")
        yield tag >> 3, at - begin, message[start:at]


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise DecodeError("A number of the message does not end.")
