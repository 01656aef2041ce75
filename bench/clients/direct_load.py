"""The reference client: raw gRPC to Triton, one half-closed stream per request on one channel, no Conch in between."""

import sys
import time
from collections.abc import AsyncIterator

import grpc
import uvloop
from tritonclient.grpc import service_pb2, service_pb2_grpc

from bench import conversations
from bench.clients.messages import Load, LoadResult
from bench.clients.server import ClosedLoop, RequestFailed, Sample, serve
from conch_contracts.dialects.tokens import INPUT_IDS, PARAMETERS, TOKEN_IDS
from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.messages.message import to_json

_INT32_BYTES = 4
_REQUEST_TIMEOUT_S = 120.0


class DirectClient:
    """Asks one model of one Triton."""

    def __init__(self, stub: service_pb2_grpc.GRPCInferenceServiceStub, model: str) -> None:
        self._stub = stub
        self._model = model
        self._prompts = [conversation.prompt_ids for conversation in conversations.load()]

    async def load(self, load: Load) -> LoadResult:
        """Run a closed loop of generations."""
        sampling = SamplingParameters(max_tokens=load.max_tokens, temperature=0, ignore_eos=True)
        parameters = to_json(sampling)

        async def request(_slot: int, number: int) -> Sample:
            message = self._message(self._prompts[number % len(self._prompts)], parameters)
            return await self._generate(message, load.max_tokens)

        return await ClosedLoop(load, request).run()

    def _message(self, prompt: list[int], parameters: bytes) -> service_pb2.ModelInferRequest:
        message = service_pb2.ModelInferRequest(model_name=self._model)
        ids = message.inputs.add(name=INPUT_IDS, datatype="INT32", shape=[len(prompt)])
        ids.contents.int_contents.extend(prompt)
        text = message.inputs.add(name=PARAMETERS, datatype="BYTES", shape=[1])
        text.contents.bytes_contents.append(parameters)
        message.parameters["triton_enable_empty_final_response"].bool_param = True
        return message

    async def _generate(self, message: service_pb2.ModelInferRequest, expected: int) -> Sample:
        started = time.monotonic()
        first, tokens = 0.0, 0
        try:
            async for answer in self._stub.ModelStreamInfer(_once(message), timeout=_REQUEST_TIMEOUT_S):
                if answer.error_message:
                    raise RequestFailed(f"Triton answered: {answer.error_message}")
                new = _token_count(answer.infer_response)
                if new and not tokens:
                    first = time.monotonic() - started
                tokens += new
        except grpc.RpcError as exc:
            raise RequestFailed(f"The gRPC stream broke: {exc}") from exc
        if tokens != expected:
            raise RequestFailed(f"Triton sent {tokens} tokens instead of {expected}.")
        return Sample(first, time.monotonic() - started, tokens)


async def _once(message: service_pb2.ModelInferRequest) -> AsyncIterator[service_pb2.ModelInferRequest]:
    yield message


def _token_count(response: service_pb2.ModelInferResponse) -> int:
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        if output.name == TOKEN_IDS:
            return len(raw) // _INT32_BYTES
    return 0


async def _main(address: str, model: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        await serve(DirectClient(service_pb2_grpc.GRPCInferenceServiceStub(channel), model))


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], sys.argv[2]))
