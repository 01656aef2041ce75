"""Clients that hang up or never read leave nothing behind in a gateway."""

import asyncio
import os
import re
from itertools import pairwise

import psutil

from conch_contracts.names import ENCODE_PATH
from conch_contracts.records import Dialect, ModelKind, RoutingPolicy
from testkit.gateway.fakes import route
from testkit.gateway.process import FRAMES, gateway_process
from testkit.http import raw_http

PATH = "/v1/chat/completions"
CHAT = b'{"model":"tiny-chat","messages":[{"role":"user","content":"hi"}]}'
STREAM = raw_http.request(PATH, CHAT[:-1] + b',"stream":true}')
ROUNDS, CUT, AT_ONCE = 5, 2_000, 100
STALLED = 64
STALLED_BYTES = 1_500_000
"""A megabyte that waits for the client, and what the request and the allocator take beside it."""
DEADLINE_S = 60


def descriptors(gateway):
    return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))


def memory(gateway):
    return psutil.Process(gateway.process.pid).memory_info().rss


async def held(gateway):
    """Return how many requests have an engine's slot, or wait for one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.admin_port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    metrics = await reader.read()
    writer.close()
    found = re.findall(rb"^conch_gateway_(?:in_flight|waiting)\{[^}]*\} (\S+)$", metrics, re.MULTILINE)
    assert len(found) == 2
    return sum(map(float, found))


async def cut(gateway, number):
    """Ask for a stream and hang up: at once, or with its first bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(STREAM)
    await (writer.drain() if number % 2 else reader.read(1))
    writer.transport.abort()


async def cut_many(gateway, count):
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(cut(gateway, number) for number in range(first, first + AT_ONCE)))
    async with asyncio.timeout(DEADLINE_S):
        while await held(gateway):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_ten_thousand_streams_cut_at_once_leave_nothing(tmp_path):
    async with gateway_process(tmp_path) as gateway:
        script = gateway.backend.script

        async def endless(call):
            if "prepare" in call.path:
                return await script(call)
            await call.begin()
            await call.chunk(FRAMES[0])
            await call.closed()
            return call.close()

        gateway.backend.script = endless
        await cut_many(gateway, CUT)  # what a process keeps for its next requests is there then
        before, used = descriptors(gateway), [memory(gateway)]
        for _ in range(ROUNDS - 1):
            await cut_many(gateway, CUT)
            used.append(memory(gateway))
        async with asyncio.timeout(DEADLINE_S):
            while descriptors(gateway) > before + AT_ONCE:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        grown = [later - sooner for sooner, later in pairwise(used)]
        assert min(grown) < CUT * 256, "what each request leaves grows in every round; an allocator's arena does not"
        gateway.backend.script = script
        assert (await gateway.post(PATH, CHAT))[0] == 200


async def test_clients_that_never_read_are_dropped_and_take_little_memory(tmp_path):
    async with gateway_process(tmp_path, write_stall_s="1") as gateway:
        script, dropped = gateway.backend.script, 0

        async def flood(call):
            nonlocal dropped
            if "prepare" in call.path:
                return await script(call)
            await call.begin()
            try:
                while True:
                    await call.chunk(b"data: " + b"x" * 60_000 + b"\n\n")
            finally:
                dropped += 1

        gateway.backend.script = flood
        for count in (1, STALLED):
            before, peak, dropped = memory(gateway), 0, 0
            opened = [await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024) for _ in range(count)]
            for _, writer in opened:
                writer.write(STREAM)
            async with asyncio.timeout(DEADLINE_S):
                while dropped < count:
                    peak = max(peak, memory(gateway))
                    await asyncio.sleep(0.01)
            for _, writer in opened:
                writer.transport.abort()
        assert peak - before < STALLED * STALLED_BYTES
        gateway.backend.script = script
        assert (await gateway.post(PATH, CHAT))[0] == 200


async def connected(gateway, request):
    """Ask on a connection of its own, and read nothing of what comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
    writer.write(request)
    await writer.drain()
    return reader, writer


async def test_a_client_that_reads_nothing_when_its_time_is_up_is_dropped(tmp_path):
    model = route(routing=RoutingPolicy(timeout_s=1))
    async with gateway_process(tmp_path, model, write_stall_s="2", worker_grace_s="0", keep_alive_s="0.3") as gateway:
        script, full = gateway.backend.script, asyncio.Event()

        async def flood(call):
            if "prepare" in call.path:
                return await script(call)
            await call.begin()
            try:
                while True:
                    await call.chunk(b"data: " + b"x" * 60_000 + b"\n\n")
            finally:
                full.set()

        assert (await gateway.post(PATH, CHAT))[0] == 200
        gateway.backend.script = flood
        _, writer = await connected(gateway, STREAM)
        await asyncio.wait_for(full.wait(), DEADLINE_S)
        await dropped(gateway, writer)


async def test_an_answer_that_nobody_reads_does_not_stay_in_memory(tmp_path):
    model = route(kind=ModelKind.EMBEDDING, dialect=Dialect.ENCODER)
    request = raw_http.request("/v1/embeddings", b'{"model":"tiny-chat","input":"hi"}')
    async with gateway_process(tmp_path, model, write_stall_s="1") as gateway:
        script, numbers, asked = gateway.backend.script, ",".join(["0.125"] * 3_000_000), asyncio.Event()

        async def large(call):
            if call.path != ENCODE_PATH:
                return await script(call)
            asked.set()
            return await call.answer(f'{{"data":[{{"embedding":[{numbers}]}}]}}'.encode())

        gateway.backend.script = large
        _, writer = await connected(gateway, request)
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        await dropped(gateway, writer)


async def dropped(gateway, writer):
    """Wait until the gateway has no connection to a client any more that reads nothing."""
    port = writer.get_extra_info("sockname")[1]
    process = psutil.Process(gateway.process.pid)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while any(at.raddr and at.raddr.port == port for at in process.net_connections("tcp")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        writer.transport.abort()
