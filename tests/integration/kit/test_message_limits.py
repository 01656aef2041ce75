"""The gRPC client against a server whose answers are many times larger once they are parsed."""

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceServicer, add_GRPCInferenceServiceServicer_to_server

from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.message_limits import MAX_PROBE_BYTES
from conch_kit.triton.tensors import FINAL_RESPONSE

_UNLIMITED = [("grpc.max_send_message_length", -1)]


class Hostile(GRPCInferenceServiceServicer):  # type: ignore[misc]  # the library has no types
    """Says far more than anybody needs."""

    async def RepositoryIndex(self, request, context):  # noqa: N802
        """List a million models without names."""
        answer = pb.RepositoryIndexResponse()
        answer.ParseFromString(b"\x0a\x00" * 1_000_000)
        return answer

    async def ModelInfer(self, request, context):  # noqa: N802
        """Answer one row with five million bytes, or as many outputs without a name."""
        if request.model_name == "names":
            answer = pb.ModelInferResponse()
            answer.ParseFromString(b"\x2a\x00" * 5_000_000)
            return answer
        return pb.ModelInferResponse(raw_output_contents=[bytes(MAX_PROBE_BYTES + 1)])

    async def ModelStreamInfer(self, requests, context):  # noqa: N802
        """Answer with more than four million bytes."""
        async for _ in requests:
            answer = pb.ModelInferResponse(raw_output_contents=[bytes(MAX_PROBE_BYTES + 1)])
            answer.parameters[FINAL_RESPONSE].bool_param = True
            yield pb.ModelStreamInferResponse(infer_response=answer)


@pytest.fixture
async def hostile():
    server = grpc.aio.server(options=_UNLIMITED)
    add_GRPCInferenceServiceServicer_to_server(Hostile(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield EngineAddress(f"127.0.0.1:{port}")
    await server.stop(None)


async def test_an_index_of_empty_rows_is_not_parsed(hostile):
    async with TritonClient() as client:
        with pytest.raises(MalformedResponse, match="larger than max"):
            await client.repository_index(hostile)


async def test_an_answer_to_the_operator_is_bounded(hostile):
    request = pb.ModelInferRequest(model_name="m")
    async with TritonClient(most_bytes=MAX_PROBE_BYTES) as client:
        with pytest.raises(MalformedResponse, match="larger than max"):
            await client.infer(hostile, request, timeout_s=30)
    async with TritonClient() as client:
        answer = await client.infer(hostile, request, timeout_s=30)
    assert len(answer.raw_output_contents[0]) == MAX_PROBE_BYTES + 1


async def test_a_request_says_how_long_its_answer_may_be(hostile):
    def ask(client, most):
        asked = pb.ModelInferRequest(model_name="m")
        times = {"first_timeout_s": 30, "inter_timeout_s": 30, "timeout_s": 30}
        yield client.infer(hostile, asked, timeout_s=30, most_bytes=most)
        yield anext(client.stream(hostile, asked, **times, most_bytes=most))

    async with TritonClient() as client:
        for refused in ask(client, MAX_PROBE_BYTES):
            with pytest.raises(MalformedResponse, match=f"{MAX_PROBE_BYTES} are allowed"):
                await refused
        for answer in ask(client, MAX_PROBE_BYTES + 1000):
            assert len((await answer).raw_output_contents[0]) == MAX_PROBE_BYTES + 1


async def test_an_answer_of_empty_outputs_is_not_parsed(hostile):
    request = pb.ModelInferRequest(model_name="names")
    async with TritonClient() as client:
        with pytest.raises(MalformedResponse, match="more than its tensors"):
            await client.infer(hostile, request, timeout_s=60)
