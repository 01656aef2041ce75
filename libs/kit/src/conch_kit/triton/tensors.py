"""Packs and reads the tensors of KServe v2 protobuf messages; pure, and fast for small ones."""

import struct
from collections.abc import Sequence

from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from conch_kit.triton.errors import MalformedResponse

FINAL_RESPONSE = "triton_final_response"
EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"

_INTEGERS = {
    "BOOL": ("?", 1),
    "INT8": ("b", 1),
    "UINT8": ("B", 1),
    "INT16": ("h", 2),
    "UINT16": ("H", 2),
    "INT32": ("i", 4),
    "UINT32": ("I", 4),
    "INT64": ("q", 8),
    "UINT64": ("Q", 8),
}
_FLOATS = {"FP16": ("e", 2), "FP32": ("f", 4), "FP64": ("d", 8)}
_FIXED = _INTEGERS | _FLOATS

Value = int | float | bool | bytes


def new_request(model: str, request_id: str) -> ModelInferRequest:
    """Return an empty request for the newest version of a model."""
    return ModelInferRequest(model_name=model, id=request_id)


def add_input(
    request: ModelInferRequest, name: str, datatype: str, shape: Sequence[int], values: Sequence[Value]
) -> None:
    """Add one tensor; raises ValueError when the values do not fit its type."""
    try:
        raw = pack(datatype, values)
    except (struct.error, TypeError) as error:
        raise ValueError(f"input {name} cannot hold these values as {datatype}: {error}") from error
    add_raw(request, name, datatype, shape, raw)


def add_raw(request: ModelInferRequest, name: str, datatype: str, shape: Sequence[int], raw: bytes) -> None:
    """Add one tensor whose elements are packed already."""
    request.inputs.add(name=name, datatype=datatype, shape=shape)
    request.raw_input_contents.append(raw)


def pack(datatype: str, values: Sequence[Value]) -> bytes:
    """Return the elements of one tensor packed; raises TypeError and struct.error when they do not fit its type."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(value)) + value for value in map(_bytes, values))
    if datatype not in _FIXED:
        raise TypeError("this type is not supported")
    return struct.pack(f"<{len(values)}{_FIXED[datatype][0]}", *values)


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is no bytes")
    return value


def is_final(response: ModelInferResponse) -> bool:
    """Return whether this is the last response of its request."""
    return FINAL_RESPONSE in response.parameters and response.parameters[FINAL_RESPONSE].bool_param


class Outputs:
    """The outputs of one response, read by name; raises MalformedResponse for what is missing or broken."""

    __slots__ = ("_raw", "_tensors")

    def __init__(self, response: ModelInferResponse) -> None:
        self._tensors = {tensor.name: (index, tensor) for index, tensor in enumerate(response.outputs)}
        self._raw = response.raw_output_contents
        if len(self._raw) != len(self._tensors):
            raise MalformedResponse(
                f"The engine declared {len(self._tensors)} outputs and sent the contents of {len(self._raw)}."
            )

    def has(self, name: str) -> bool:
        """Return whether this response holds the output."""
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the output's shape."""
        return tuple(self._tensor(name)[1].shape)

    def raw(self, name: str) -> tuple[str, tuple[int, ...], bytes]:
        """Return the output's type, shape and packed elements."""
        index, tensor = self._tensor(name)
        return tensor.datatype, tuple(tensor.shape), self._raw[index]

    def ints(self, name: str) -> tuple[int, ...]:
        """Return the elements of an integer or boolean output, flat."""
        return self._fixed(name, _INTEGERS)

    def floats(self, name: str) -> tuple[float, ...]:
        """Return the elements of a floating-point output, flat."""
        return self._fixed(name, _FLOATS)

    def texts(self, name: str) -> list[bytes]:
        """Return the elements of a BYTES output, flat."""
        index, tensor = self._tensor(name)
        if tensor.datatype != "BYTES":
            raise MalformedResponse(f"Output {name} should be BYTES and is {tensor.datatype}.")
        raw = self._raw[index]
        found = []
        position = 0
        while position < len(raw):
            end = position + 4
            end += int.from_bytes(raw[position:end], "little")
            if end > len(raw) or position + 4 > len(raw):
                raise MalformedResponse(f"Output {name} ends inside an element.")
            found.append(raw[position + 4 : end])
            position = end
        return found

    def _tensor(self, name: str) -> tuple[int, ModelInferResponse.InferOutputTensor]:
        try:
            return self._tensors[name]
        except KeyError:
            raise MalformedResponse(f"The engine's response has no output {name}.") from None

    def _fixed(self, name: str, types: dict[str, tuple[str, int]]) -> tuple[int, ...]:
        index, tensor = self._tensor(name)
        if tensor.datatype not in types:
            raise MalformedResponse(
                f"Output {name} has the type {tensor.datatype}, expected one of {', '.join(types)}."
            )
        code, size = types[tensor.datatype]
        raw = self._raw[index]
        count, rest = divmod(len(raw), size)
        if rest:
            raise MalformedResponse(f"Output {name} holds {len(raw)} bytes, which is no number of {tensor.datatype}.")
        return struct.unpack(f"<{count}{code}", raw)
