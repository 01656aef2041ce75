"""The clients of the three paths to an embedding: straight to Triton, through an embed-worker, through the gateway."""

import asyncio
from types import TracebackType
from typing import Self

import grpc
import numpy as np
import orjson
from tritonclient.grpc import service_pb2, service_pb2_grpc

from bench.clients.posting import PostingClient
from conch_contracts.dialects.encoder import INPUTS, LAST_HIDDEN_STATE
from conch_contracts.names import ENCODE_PATH

_OPTIONS = (("grpc.max_receive_message_length", 256 * 1024 * 1024),)


class DirectEmbeddings:
    """Calls Triton over gRPC with a ready batch, and reads nothing of the answer."""

    def __init__(self, address: str, model: str) -> None:
        self._address = address
        self._model = model

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def embed(self, ids: list[list[int]]) -> None:
        """Send one batch."""
        values = np.array(ids, np.int64)
        request = service_pb2.ModelInferRequest(model_name=self._model)
        for name, tensor in zip(INPUTS, (values, np.ones_like(values), np.zeros_like(values)), strict=True):
            request.inputs.add(name=name, datatype="INT64", shape=values.shape)
            request.raw_input_contents.append(tensor.tobytes())
        request.outputs.add(name=LAST_HIDDEN_STATE)
        await self._stub.ModelInfer(request, timeout=60)


class WorkerEmbeddings(PostingClient):
    """Asks an embed-worker as the gateway does."""

    def __init__(self, url: str, engine: str, model: str) -> None:
        super().__init__(url)
        self._target = {"address": engine, "model": model}

    async def embed(self, ids: list[list[int]]) -> None:
        """Send one request."""
        rows = [{"ids": row} for row in ids]
        body = {"request_id": "bench", "target": self._target, "task": "embed", "rows": rows, "base64": True}
        await self.post(ENCODE_PATH, orjson.dumps(body))


class GatewayEmbeddings(PostingClient):
    """Asks the gateway, as a client does."""

    async def embed(self, texts: list[str], *, encoding: str = "base64") -> None:
        """Send one request."""
        body = {"model": "minilm", "input": texts, "encoding_format": encoding}
        await self.post("/v1/embeddings", orjson.dumps(body))

    async def throughput(self, batches: list[list[list[str]]]) -> float:
        """Return how many inputs a second clients get that each send their own batches one after the other."""
        loop = asyncio.get_running_loop()

        async def client(own: list[list[str]]) -> None:
            for texts in own:
                await self.embed(texts)

        began = loop.time()
        await asyncio.gather(*(client(own) for own in batches))
        return sum(len(texts) for own in batches for texts in own) / (loop.time() - began)
