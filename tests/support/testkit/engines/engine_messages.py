"""Engine messages as a real server would send them, for tests without one."""

import struct
from collections.abc import Sequence

from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

_CODES = {"INT32": "i", "UINT32": "I", "FP32": "f", "UINT64": "Q", "BOOL": "?", "UINT8": "B", "INT64": "q"}


def response(
    *, final: bool = False, **tensors: tuple[str, Sequence[int], Sequence[int | float | bytes]]
) -> ModelInferResponse:
    """Return a response with tensors given as name=(datatype, shape, values)."""
    made = ModelInferResponse(model_name="m")
    made.parameters["triton_final_response"].bool_param = final
    for name, (datatype, shape, values) in tensors.items():
        made.outputs.add(name=name, datatype=datatype, shape=shape)
        if datatype == "BYTES":
            raw = b"".join(struct.pack("<I", len(value)) + value for value in values if isinstance(value, bytes))
        else:
            raw = struct.pack(f"<{len(values)}{_CODES[datatype]}", *values)
        made.raw_output_contents.append(raw)
    return made


def inputs(request: ModelInferRequest) -> dict[str, tuple[str, list[int], list[int | float]]]:
    """Return a request's tensors as name: (datatype, shape, values); BYTES are left out."""
    found = {}
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        if tensor.datatype == "BYTES":
            continue
        code = _CODES[tensor.datatype]
        values = list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))
        found[tensor.name] = (tensor.datatype, list(tensor.shape), values)
    return found


def text_inputs(request: ModelInferRequest) -> dict[str, list[bytes]]:
    """Return a request's tensors of text."""
    found = {}
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        if tensor.datatype == "BYTES":
            values = []
            while raw:
                (size,) = struct.unpack_from("<I", raw)
                values.append(raw[4 : 4 + size])
                raw = raw[4 + size :]
            found[tensor.name] = values
    return found


def tokens_response(
    ids: Sequence[int], finish: str | None = None, stop_token_id: int = -1, logprob: float | None = None
) -> ModelInferResponse:
    """Return a response of the `tokens` dialect; `logprob`: of each id, if they are told."""
    tensors: dict[str, tuple[str, Sequence[int], Sequence[int | float | bytes]]] = {
        "token_ids": ("INT32", [len(ids)], ids)
    }
    if logprob is not None:
        tensors["logprobs"] = ("FP32", [len(ids)], [logprob] * len(ids))
    if finish is not None:
        tensors["finish_reason"] = ("BYTES", [1], [finish.encode()])
        tensors["stop_token_id"] = ("INT32", [1], [stop_token_id])
    return response(final=finish is not None, **tensors)
