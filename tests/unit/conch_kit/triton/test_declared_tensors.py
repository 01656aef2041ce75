"""What is read from a model's config, and requests that hold only what it declares."""

import pytest
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from conch_contracts.records import Dialect
from conch_kit.triton.declared_tensors import DeclaredTensors, Inputs, read_declared_tensors
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import new_request
from testkit.engines.engine_messages import inputs


def config() -> ModelConfig:
    made = ModelConfig(name="m", max_batch_size=8)
    made.input.add(name="ids", data_type=DataType.TYPE_INT32, dims=[-1])
    made.input.add(name="seed", data_type=DataType.TYPE_UINT64, dims=[1], optional=True)
    made.input.add(name="text", data_type=DataType.TYPE_STRING, dims=[1], optional=True)
    made.output.add(name="out", data_type=DataType.TYPE_INT32, dims=[-1])
    made.model_transaction_policy.decoupled = True
    made.parameters["whole"].string_value = "true"
    return made


def test_a_config_is_read() -> None:
    declared = read_declared_tensors(config())
    assert dict(declared.datatypes) == {"ids": "INT32", "seed": "UINT64", "text": "BYTES"}
    assert (declared.batched, declared.decoupled, declared.required, declared.outputs) == (True, True, {"ids"}, {"out"})
    assert (dict(declared.settings), declared.is_signed("ids"), declared.is_signed("seed")) == (
        {"whole": "true"},
        True,
        False,
    )


def test_a_value_goes_to_the_first_name_that_is_declared() -> None:
    message = new_request("m", "r")
    made = Inputs(message, read_declared_tensors(config()))
    assert made.offer(("random_seed", "seed"), 5)
    assert not made.offer(("temperature",), 0.5)
    assert made.offer(("seed",), None)
    assert inputs(message) == {"seed": ("UINT64", [1, 1], [5])}


def test_an_input_that_nobody_gives_is_named() -> None:
    made = Inputs(
        new_request("m", "r"),
        DeclaredTensors({"ids": "INT32"}, batched=True, decoupled=True, required=frozenset({"ids"})),
    )
    with pytest.raises(MalformedResponse, match="needs the input ids, which the vllm dialect does not know"):
        made.check_required(Dialect.VLLM)
    made.add("ids", [1], [1])
    made.check_required(Dialect.VLLM)
