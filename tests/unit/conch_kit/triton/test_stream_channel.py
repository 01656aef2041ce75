"""How a channel connects and what it leaves; how it fares with a real server is in `integration/`."""

import asyncio
import socket
from collections.abc import AsyncIterator

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from conch_contracts.names import EngineAddress
from conch_kit.http2.header_blocks import literal
from conch_kit.triton import stream_channel as module
from conch_kit.triton.stream_call import CallFailed
from conch_kit.triton.stream_channel import StreamChannel
from testkit.waiting import eventually


class Server:
    """Takes connections and says nothing."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.read(1000):
            pass
        self.connections -= 1
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as listening:
        found.port = listening.sockets[0].getsockname()[1]
        yield found


async def test_of_several_addresses_the_first_that_takes_a_connection_is_used(server: Server) -> None:
    channel = StreamChannel(EngineAddress(f"ipv4:127.0.0.1:9,127.0.0.1:{server.port}"))
    channel.call(pb.ModelInferRequest(), timeout_s=60)
    await eventually(lambda: server.connections == 1, "the connection")
    await channel.close()


async def test_an_address_that_takes_no_connection_leaves_time_for_the_next(server: Server) -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_connection(full.getsockname()),
    ):
        channel = StreamChannel(EngineAddress(f"ipv4:127.0.0.1:{full.getsockname()[1]},127.0.0.1:{server.port}"))
        call = channel.call(pb.ModelInferRequest(), timeout_s=60)
        await eventually(lambda: server.connections == 1, "the connection")
        call.cancel()
        await channel.close()


async def test_no_connection_outlives_its_channel(server: Server) -> None:
    channel = StreamChannel(EngineAddress(f"127.0.0.1:{server.port}"))
    channel.call(pb.ModelInferRequest(), timeout_s=60)
    await eventually(lambda: server.connections == 1, "the connection")
    await channel.close()
    await eventually(lambda: server.connections == 0, "its end")


async def test_a_channel_that_is_closed_while_it_connects_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(channel: StreamChannel) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(module.StreamChannel, "_dial", never)
    channel, before = StreamChannel(EngineAddress("127.0.0.1:9")), asyncio.all_tasks()
    channel.call(pb.ModelInferRequest(), timeout_s=60)
    await asyncio.sleep(0)
    await asyncio.wait_for(channel.close(), 1)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(("timeout_s", "said"), [(0.0, b"1m"), (1.5, b"1500m"), (1e9, b"99999999m")])
async def test_a_server_is_told_a_time_that_grpc_can_write(timeout_s: float, said: bytes) -> None:
    channel = StreamChannel(EngineAddress("127.0.0.1:9"))
    channel.call(pb.ModelInferRequest(), timeout_s=timeout_s)
    ((_, head, _),) = channel._waiting
    assert head.endswith(literal(b"grpc-timeout", said))
    await channel.close()


async def test_who_calls_where_nobody_listens_hears_so_and_later_calls_are_tried_anew(server: Server) -> None:
    channel = StreamChannel(EngineAddress("127.0.0.1:9"))
    for _ in range(2):
        call = channel.call(pb.ModelInferRequest(), timeout_s=60)
        with pytest.raises(CallFailed, match="cannot be reached") as failed:
            await asyncio.wait_for(call.read(), 30)
        assert failed.value.code is grpc.StatusCode.UNAVAILABLE
    channel._target = f"127.0.0.1:{server.port}"
    channel.call(pb.ModelInferRequest(), timeout_s=60)
    await eventually(lambda: server.connections == 1, "the connection")
    await channel.close()


async def test_a_server_that_takes_connections_and_says_nothing_is_left(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GREETING_S", 0.05)
    channel = StreamChannel(EngineAddress(f"127.0.0.1:{server.port}"))
    call = channel.call(pb.ModelInferRequest(), timeout_s=60)
    with pytest.raises(CallFailed, match="takes connections and says nothing") as failed:
        await asyncio.wait_for(call.read(), 30)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE
    await eventually(lambda: server.connections == 0, "its end")
    await channel.close()
