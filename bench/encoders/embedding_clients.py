"""The clients of the three paths to an embedding: straight to Triton, through an embed-worker, through the gateway."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import grpc
import numpy as np
import orjson
from tritonclient.grpc import service_pb2, service_pb2_grpc

from bench.clients.connection import Connection, EventTally
from conch_contracts.dialects.encoder import INPUTS, LAST_HIDDEN_STATE
from conch_contracts.names import ENCODE_PATH

_TIMEOUT_S = 120.0
_OPTIONS = (("grpc.max_receive_message_length", 256 * 1024 * 1024),)


class DirectClient:
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


class _Http:
    """Posts JSON on kept connections that cost as little as those of the other measurements."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._idle:
            connection.close()

    async def _post(self, path: str, body: object) -> None:
        content = orjson.dumps(body)
        head = f"POST {path} HTTP/1.1\r\nHost: {self._address.netloc}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
        connection = self._idle.pop() if self._idle else await self._connect()
        connection.begin(request)
        answer = await connection.finished(_TIMEOUT_S)
        if answer.status != 200:
            connection.close()
            raise RuntimeError(f"{path} answered {answer.status}: {answer.tail[:300]!r}")
        self._idle.append(connection)

    async def _connect(self) -> Connection:
        host, port = self._address.hostname, self._address.port
        assert host is not None
        assert port is not None
        _, connection = await asyncio.get_running_loop().create_connection(lambda: Connection(EventTally()), host, port)
        return connection


class WorkerClient(_Http):
    """Asks an embed-worker as the gateway does."""

    def __init__(self, url: str, engine: str, model: str) -> None:
        super().__init__(url)
        self._target = {"address": engine, "model": model}

    async def embed(self, ids: list[list[int]]) -> None:
        """Send one request."""
        rows = [{"ids": row} for row in ids]
        body = {"request_id": "bench", "target": self._target, "task": "embed", "rows": rows, "base64": True}
        await self._post(ENCODE_PATH, body)


class GatewayClient(_Http):
    """Asks the gateway, as a client does."""

    async def embed(self, texts: list[str], *, encoding: str = "base64") -> None:
        """Send one request."""
        await self._post("/v1/embeddings", {"model": "minilm", "input": texts, "encoding_format": encoding})

    async def throughput(self, batches: list[list[list[str]]]) -> float:
        """Return how many inputs a second clients get that each send their own batches one after the other."""
        loop = asyncio.get_running_loop()

        async def client(own: list[list[str]]) -> None:
            for texts in own:
                await self.embed(texts)

        began = loop.time()
        await asyncio.gather(*(client(own) for own in batches))
        return sum(len(texts) for own in batches for texts in own) / (loop.time() - began)
