"""What a client leaves behind; how it speaks with servers is in `integration/`."""

import asyncio

import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineError, EngineUnavailable
from testkit.processes.conch_up import free_port
from testkit.waiting import eventually


async def test_no_connection_outlives_its_client() -> None:
    open_now = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        while await reader.read(1000):
            pass
        open_now -= 1
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server, asyncio.timeout(60):
        address = EngineAddress(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with TritonClient() as client:
            with pytest.raises(EngineError):
                await client.infer(address, ModelInferRequest(), timeout_s=0.5)
            with pytest.raises(EngineError):
                await client.model_ready(address, "a", timeout_s=0.5)
            waits = {"first_timeout_s": 0.5, "inter_timeout_s": 0.5, "timeout_s": 0.5}
            with pytest.raises(EngineError):
                await anext(client.stream(address, ModelInferRequest(), **waits))
            await eventually(lambda: open_now == 3, "three connections")
        await eventually(lambda: open_now == 0, "the end of all")


async def test_a_server_is_reached_as_soon_as_it_listens_however_often_it_was_not() -> None:
    port = free_port()
    address = EngineAddress(f"127.0.0.1:{port}")
    async with TritonClient() as client, asyncio.timeout(60):
        for _ in range(20):
            with pytest.raises(EngineUnavailable, match="Connect call failed"):
                await client.reach(address)
        async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port):
            await client.reach(address)
