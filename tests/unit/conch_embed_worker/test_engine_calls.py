"""One batch goes over the protocol of its engine's address, within its time."""

from typing import Any

import numpy as np
import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.messages.encoding import Row
from conch_contracts.names import EngineAddress
from conch_embed_worker.engine_calls import EncoderCalls
from conch_kit.triton.encoder_tensors import read_encoder_tensors

VECTOR = np.array([[1, 2]], "<f4")


class FakeTriton:
    """Answers each call with one vector, as a client of either protocol does."""

    def __init__(self, *, http: bool) -> None:
        self.calls: list[tuple[str, float | None]] = []
        self._http = http

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        self.calls.append((address, None))
        return ModelConfig()

    async def infer(self, address: EngineAddress, *asked: Any, timeout_s: float) -> Any:
        self.calls.append((address, timeout_s))
        if self._http:
            return "FP32", (1, 2), VECTOR.tobytes()
        answer = ModelInferResponse(raw_output_contents=[VECTOR.tobytes()])
        answer.outputs.add(name="embedding", datatype="FP32", shape=[1, 2])
        return answer


@pytest.mark.parametrize(("address", "over_http"), [("127.0.0.1:1", False), ("http://127.0.0.1:1", True)])
async def test_an_engine_is_asked_over_the_protocol_of_its_address(address: str, over_http: bool) -> None:
    grpc, http = FakeTriton(http=False), FakeTriton(http=True)
    calls = EncoderCalls(grpc, http)  # type: ignore[arg-type]
    await calls.model_config(EngineAddress(address), "m")
    config = ModelConfig(max_batch_size=4)
    config.input.add(name="input_ids", data_type=9, dims=[-1])
    config.output.add(name="embedding", data_type=11, dims=[2])
    encoder = read_encoder_tensors(config, {}, None)
    numbers = await calls.compute(EngineAddress(address), "m", [Row(ids=(1,))], encoder, timeout_s=7.0)
    assert numbers.tolist() == [[1, 2]]
    asked, other = (http, grpc) if over_http else (grpc, http)
    assert asked.calls == [(address, None), (address, 7.0)]
    assert other.calls == []
