"""Bodies that do not stand in memory as a whole, from the gateway's HTTP client to a real server."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_gateway.upstream.port import AnswerLost, Post, read_all
from testkit.servers.scripted_http import ScriptedHttp
from testkit.waiting import eventually

HANGS_S = 60
BLOCK = bytes(range(256)) * 1024
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Blocks:
    """So many blocks, of which it notes how far they were asked for."""

    def __init__(self, count):
        self.size = count * len(BLOCK)
        self.asked = 0
        self.begun = 0

    async def piece(self, start):
        assert start % len(BLOCK) == 0
        self.begun += start == 0
        self.asked = start + len(BLOCK)
        return BLOCK


@pytest.fixture
async def pool():
    async with ConnectionPool() as client:
        yield client


def post(server, rest, body=b"head"):
    return Post(WorkerUrl(server.url), "/x", (), body, rest)


async def ask(client, server, rest):
    async with asyncio.timeout(HANGS_S), client.post(post(server, rest)) as answer:
        return answer.status, await read_all(answer, limit=10**7)


@asynccontextmanager
async def raw_server(serve):
    """Serve connections that a script reads and answers by itself."""

    class Server:
        url = ""
        connections = 0

    found = Server()

    async def connected(reader, writer):
        found.connections += 1
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1000)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()


async def test_a_body_arrives_whole_and_its_connection_serves_again(pool):
    async def sizes(call):
        await call.answer(b"%d" % len(call.body))

    async with ScriptedHttp(sizes) as server:
        for count in (0, 1, 40):
            assert await ask(pool, server, Blocks(count)) == (200, b"%d" % (4 + count * len(BLOCK)))
        assert server.connections == 1
        assert server.calls[-1].body == b"head" + BLOCK * 40
        assert server.calls[-1].headers["content-type"] == "application/octet-stream"


async def test_what_the_other_side_does_not_take_is_not_read_from_its_source(pool):
    goes_on = asyncio.Event()

    async def reads_late(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        await goes_on.wait()
        await reader.readexactly(4 + rest.size)
        writer.write(OK)
        await writer.drain()

    rest = Blocks(400)
    async with raw_server(reads_late) as server:
        asking = asyncio.create_task(ask(pool, server, rest))
        seen = -1
        while seen != rest.asked:
            seen = rest.asked
            await asyncio.sleep(0.3)
        assert 0 < rest.asked < rest.size // 4
        goes_on.set()
        assert await asking == (200, b"{}")


async def test_an_answer_that_comes_before_the_end_of_the_body_is_read_and_ends_the_connection(pool):
    async def answers_early(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        while await reader.read(100_000):
            pass

    rest = Blocks(400)
    async with raw_server(answers_early) as server:
        assert await ask(pool, server, rest) == (200, b"{}")
        assert rest.asked < rest.size
        assert await ask(pool, server, rest) == (200, b"{}")
        assert server.connections == 2


async def test_an_early_answer_of_one_that_reads_no_further_is_read_too(pool):
    async def reads_nothing(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(HANGS_S)

    async with raw_server(reads_nothing) as server:
        assert await ask(pool, server, Blocks(400)) == (200, b"{}")


async def test_a_connection_that_breaks_under_the_body_is_lost_before_an_answer(pool):
    async def breaks(reader, writer):
        await reader.readexactly(len(BLOCK) * 3)
        writer.transport.abort()

    async with raw_server(breaks) as server:
        with pytest.raises(AnswerLost) as caught:
            await ask(pool, server, Blocks(400))
        assert not caught.value.started


async def test_a_process_that_reads_nothing_can_be_given_up(pool):
    async def reads_nothing(reader, writer):
        await asyncio.sleep(HANGS_S)

    async with raw_server(reads_nothing) as server:
        asking = asyncio.create_task(ask(pool, server, Blocks(400)))
        await eventually(lambda: pool.awaited() == {server.url}, "the request")
        assert pool.give_up(server.url) == 1
        with pytest.raises(AnswerLost):
            await asking


async def test_a_body_goes_out_from_its_beginning_when_a_kept_connection_turns_out_to_be_closed(pool):
    async def answers_once(call):
        await call.answer(b"%d" % len(call.body))
        if len(server.calls) == 1:
            call.finish()

    async with ScriptedHttp(answers_once) as server:
        await ask(pool, server, Blocks(0))
        rest = Blocks(40)
        assert await ask(pool, server, rest) == (200, b"%d" % (4 + rest.size))


async def test_a_request_that_is_cancelled_ends_its_connection(pool):
    ended = asyncio.Event()

    async def reads_on(reader, writer):
        while await reader.read(100_000):
            pass
        ended.set()

    async with raw_server(reads_on) as server:
        rest = Blocks(100_000)
        asking = asyncio.create_task(ask(pool, server, rest))
        await eventually(lambda: rest.asked > 10 * len(BLOCK), "some of the body")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(ended.wait(), HANGS_S)
