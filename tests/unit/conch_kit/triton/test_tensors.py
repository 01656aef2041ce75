import math
import struct

import pytest
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs, Value, add_input, is_final, new_request


def _response(*tensors: tuple[str, str, list[int], bytes]) -> ModelInferResponse:
    response = ModelInferResponse()
    for name, datatype, shape, raw in tensors:
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(raw)
    return response


@pytest.mark.parametrize(
    ("datatype", "values", "raw"),
    [
        ("INT32", [1, -1], b"\x01\0\0\0\xff\xff\xff\xff"),
        ("UINT32", [2**32 - 1], b"\xff\xff\xff\xff"),
        ("INT64", [-2], struct.pack("<q", -2)),
        ("UINT64", [2**64 - 1], b"\xff" * 8),
        ("FP32", [0.5, 1], struct.pack("<ff", 0.5, 1.0)),
        ("BOOL", [True, False], b"\x01\0"),
        ("BYTES", [b"ab", b""], b"\x02\0\0\0ab\0\0\0\0"),
        ("INT32", [], b""),
    ],
)
def test_inputs_are_packed_as_triton_reads_them(datatype: str, values: list[Value], raw: bytes) -> None:
    request = new_request("model", "req-1")
    add_input(request, "x", datatype, [len(values)], values)
    assert (request.model_name, request.id) == ("model", "req-1")
    assert request.inputs[0].datatype == datatype
    assert list(request.inputs[0].shape) == [len(values)]
    assert list(request.raw_input_contents) == [raw]


@pytest.mark.parametrize(
    ("datatype", "values"),
    [("INT32", [2**31]), ("UINT32", [-1]), ("INT32", [1.5]), ("FP99", [1]), ("INT32", [b"x"]), ("BYTES", [1])],
)
def test_values_that_do_not_fit_are_refused_by_name(datatype: str, values: list[Value]) -> None:
    with pytest.raises(ValueError, match="input x"):
        add_input(new_request("model", "r"), "x", datatype, [1], values)


def test_outputs_are_read_by_name_whatever_their_order() -> None:
    outputs = Outputs(
        _response(
            ("ids", "INT32", [1, 2], struct.pack("<ii", 7, -1)),
            ("wide", "UINT64", [1], b"\xff" * 8),
            ("scores", "FP32", [2], struct.pack("<ff", 0.5, math.inf)),
            ("texts", "BYTES", [2], b"\x01\0\0\0a\x02\0\0\0\xff\xfe"),
        )
    )
    assert outputs.ints("ids") == (7, -1)
    assert outputs.shape("ids") == (1, 2)
    assert outputs.ints("wide") == (2**64 - 1,)
    assert outputs.floats("scores") == (0.5, math.inf)
    assert outputs.texts("texts") == [b"a", b"\xff\xfe"]
    assert outputs.has("ids")
    assert not outputs.has("other")


def test_a_response_without_outputs_is_readable() -> None:
    assert not Outputs(ModelInferResponse()).has("ids")


@pytest.mark.parametrize(
    ("tensor", "read"),
    [
        (("a", "INT32", [1], b"\0\0\0"), "ints"),
        (("a", "FP32", [1], b"\0\0\0\0"), "ints"),
        (("a", "INT32", [1], b"\0\0\0\0"), "floats"),
        (("a", "INT32", [1], b"\0\0\0\0"), "texts"),
        (("a", "BYTES", [1], b"\x05\0\0\0ab"), "texts"),
        (("a", "BYTES", [1], b"\x05\0"), "texts"),
        (("b", "INT32", [1], b"\0\0\0\0"), "ints"),
    ],
)
def test_a_broken_output_is_told_and_never_guessed(tensor: tuple[str, str, list[int], bytes], read: str) -> None:
    outputs = Outputs(_response(tensor))
    with pytest.raises(MalformedResponse):
        getattr(outputs, read)("a")


def test_contents_that_do_not_fit_the_declaration_are_refused() -> None:
    response = _response(("a", "INT32", [1], b"\0\0\0\0"))
    response.raw_output_contents.append(b"")
    with pytest.raises(MalformedResponse, match="declared 1 outputs"):
        Outputs(response)


def test_only_the_flag_makes_a_response_final() -> None:
    response = ModelInferResponse()
    assert not is_final(response)
    response.parameters["triton_final_response"].bool_param = False
    assert not is_final(response)
    response.parameters["triton_final_response"].bool_param = True
    assert is_final(response)
