"""The way to tokenizers, against a server that gives lanes and answers HTTP as a script says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from conch_contracts.headers import INTERNAL_TOKEN, LANE_LACKS, LEFT_BY_LANE
from conch_contracts.messages.tokenizer_frames import MAX_LANE_REQUEST_BYTES, ReplyKind
from conch_contracts.names import CHECK_GRAMMAR_PATH, LANE_PATH, PREPARE_PATH, WorkerUrl
from conch_gateway.upstream import tokenizer_lanes
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_gateway.upstream.lane import MAX_ANSWER_BYTES
from conch_gateway.upstream.port import AnswerLost, ConnectFailed, Post, read_all
from conch_gateway.upstream.tokenizer_lanes import TokenizerLanes
from conch_kit.frames import Frame, FrameReader, pack
from testkit.waiting import eventually

Script = Callable[[Frame], Frame | bytes | None]
"""What a lane does with a request: answer it, send some bytes, or end (None)."""
SILENT = Frame(0, b"")


def echo(request: Frame) -> Frame:
    return Frame(ReplyKind.DONE, b"lane:" + request.payload, request.number)


def holding(request: Frame) -> Frame:
    """Answer all but the requests that are to be held."""
    return SILENT if request.payload == b"held" else echo(request)


class Server:
    """Gives `of` lanes, or refuses them with a status; answers everything else with `http:` and the body."""

    def __init__(self, script: Script = echo, *, of: int = 1, refuses: int | None = None) -> None:
        self.script = script
        self.of = of
        self.refuses = refuses
        self.heads: list[tuple[str, dict[str, str]]] = []
        self.lanes = 0
        self.url = WorkerUrl("")
        self.writers: set[asyncio.StreamWriter] = set()

    def asked(self, path: str) -> list[dict[str, str]]:
        return [fields for found, fields in self.heads if found == path]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                path, fields = first.split()[1], dict(line.split(": ", 1) for line in lines)
                self.heads.append((path, fields))
                if path == LANE_PATH and self.refuses is None:
                    await self._lane(reader, writer)
                    return
                body = b"http:" + await reader.readexactly(int(fields["content-length"]))
                status = self.refuses if path == LANE_PATH else 200
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.writers.discard(writer)

    async def _lane(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lanes += 1
        writer.write(b"HTTP/1.1 101 X\r\nx-conch-lane: %d\r\nx-conch-lanes: %d\r\n\r\n" % (self.lanes, self.of))
        frames = FrameReader()
        while data := await reader.read(65536):
            for request in frames.feed(data):
                reply = self.script(request)
                if reply is None:
                    return
                if isinstance(reply, bytes):
                    writer.write(reply)
                elif reply is not SILENT:
                    writer.write(pack(reply.kind, reply.payload, reply.number))


class Mute(Server):
    """Takes the connection of a lane, and says nothing on it."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    async def _lane(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        self.left.set()


@asynccontextmanager
async def running(server: Server, token: str | None = None) -> AsyncIterator[TokenizerLanes]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = WorkerUrl(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    async with ConnectionPool() as pool, TokenizerLanes(pool, token) as lanes:
        yield lanes
    listener.close()
    for writer in list(server.writers):
        writer.close()
    await eventually(lambda: not server.writers, "the end of every connection")


async def ask(lanes: TokenizerLanes, server: Server, body: bytes = b"x", path: str = PREPARE_PATH) -> tuple[int, bytes]:
    async with lanes.post(Post(server.url, path, ((b"a", b"b"),), body)) as answer:
        return answer.status, await read_all(answer, limit=10**6)


async def opened(lanes: TokenizerLanes, server: Server, count: int = 1) -> None:
    """Have so many lanes opened by a request, which goes by HTTP meanwhile."""
    assert await ask(lanes, server) == (200, b"http:x")
    await eventually(lambda: lanes.open_lanes(server.url) == count, "the lanes")


@asynccontextmanager
async def held(lanes: TokenizerLanes, server: Server, count: int) -> AsyncIterator[list["asyncio.Task[object]"]]:
    """Have so many requests under way that get no answer."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(ask(lanes, server, b"held")) for _ in range(count)]
    await asyncio.sleep(0)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_requests_go_by_http_until_a_lane_is_open_and_then_on_it() -> None:
    server = Server()
    async with running(server, token="secret") as lanes:
        await opened(lanes, server)
        answers = await asyncio.gather(*(ask(lanes, server, b"%d" % number) for number in range(100)))
        assert answers == [(200, b"lane:%d" % number) for number in range(100)]
        assert len(server.asked(PREPARE_PATH)) == 1
        assert server.asked(LANE_PATH)[0][INTERNAL_TOKEN] == "secret"


async def test_there_is_a_lane_for_each_child_and_the_least_busy_is_taken() -> None:
    taken: list[bytes] = []

    def note(request: Frame) -> Frame:
        taken.append(request.payload)
        return holding(request)

    server = Server(note, of=3)
    async with running(server) as lanes:
        await opened(lanes, server, count=3)
        async with held(lanes, server, 3):
            assert lanes.awaited() == {server.url}
            assert await ask(lanes, server) == (200, b"lane:x")
        assert lanes.awaited() == set()
    assert sorted(taken) == [b"held"] * 3 + [b"x"]


async def test_what_does_not_fit_a_lane_goes_by_http() -> None:
    server = Server()
    async with running(server) as lanes:
        await opened(lanes, server)
        large = b"x" * (MAX_LANE_REQUEST_BYTES + 1)
        assert await ask(lanes, server, large) == (200, b"http:" + large)
        assert await ask(lanes, server, b"g", CHECK_GRAMMAR_PATH) == (200, b"http:g")
        assert await ask(lanes, server, large[1:]) == (200, b"lane:" + large[1:])


async def test_more_than_a_lane_may_hold_goes_by_http() -> None:
    server = Server(holding)
    async with running(server) as lanes:
        await opened(lanes, server)
        async with held(lanes, server, 127):
            assert await ask(lanes, server) == (200, b"lane:x")
            async with held(lanes, server, 1):
                assert await ask(lanes, server) == (200, b"http:x")


async def test_a_refusal_is_an_answer() -> None:
    server = Server(lambda request: Frame(ReplyKind.REFUSED, b'{"error": {}}', request.number))
    async with running(server) as lanes:
        await opened(lanes, server)
        assert await ask(lanes, server) == (400, b'{"error": {}}')


async def test_a_request_for_which_the_child_lacks_the_tokenizer_says_so_by_http() -> None:
    server = Server(lambda request: Frame(ReplyKind.MISSING, b"digest", request.number))
    async with running(server) as lanes:
        await opened(lanes, server)
        assert await ask(lanes, server) == (200, b"http:x")
        assert server.asked(PREPARE_PATH)[-1][LANE_LACKS] == "1.digest"
        assert server.asked(PREPARE_PATH)[-1]["a"] == "b"


@pytest.mark.parametrize("kind", [ReplyKind.FAILED, 200])
async def test_what_a_lane_cannot_do_is_asked_by_http(kind: int) -> None:
    server = Server(lambda request: Frame(kind, b"", request.number))
    async with running(server) as lanes:
        await opened(lanes, server)
        assert await ask(lanes, server) == (200, b"http:x")
        assert not server.asked(PREPARE_PATH)[-1].keys() & {LANE_LACKS, LEFT_BY_LANE}


async def test_requests_that_a_lane_ends_over_say_which_they_were_and_a_new_lane_is_opened() -> None:
    server = Server(lambda request: None if request.payload == b"deadly" else SILENT)
    async with running(server) as lanes:
        await opened(lanes, server)
        answers = await asyncio.gather(ask(lanes, server, b"before"), ask(lanes, server, b"deadly"))
        assert answers == [(200, b"http:before"), (200, b"http:deadly")]
        assert sorted(fields[LEFT_BY_LANE] for fields in server.asked(PREPARE_PATH)[1:]) == ["1.1", "1.2"]
        server.script = echo
        await ask(lanes, server)
        await eventually(lambda: lanes.open_lanes(server.url) == 1, "another lane")
        assert await ask(lanes, server) == (200, b"lane:x")


async def test_a_lane_that_announces_a_longer_answer_than_there_is_ends_and_its_request_goes_by_http() -> None:
    def announce(request: Frame) -> bytes:
        return pack(ReplyKind.DONE, b"", request.number)[:-4] + (MAX_ANSWER_BYTES + 1).to_bytes(4, "big")

    server = Server(announce)
    async with running(server) as lanes:
        await opened(lanes, server)
        assert await asyncio.wait_for(ask(lanes, server), 30) == (200, b"http:x")
        assert server.asked(PREPARE_PATH)[-1][LEFT_BY_LANE] == "1.1"


async def test_where_no_lanes_are_given_none_is_asked_for_again_and_again() -> None:
    server = Server(refuses=404)
    async with running(server) as lanes:
        assert await ask(lanes, server) == (200, b"http:x")
        await eventually(lambda: server.asked(LANE_PATH) != [], "the question")
        for _ in range(20):
            assert await ask(lanes, server) == (200, b"http:x")
        assert len(server.asked(LANE_PATH)) == 1


async def test_a_lane_that_there_is_not_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_lanes, "_AGAIN_S", 0.0)
    for refuses, again in ((503, True), (404, False)):
        server = Server(refuses=refuses)
        async with running(server) as lanes:
            for _ in range(20):
                assert await ask(lanes, server) == (200, b"http:x")
        assert (len(server.asked(LANE_PATH)) > 1) is again


async def test_the_answers_of_a_process_that_was_given_up_are_lost() -> None:
    server = Server(holding)
    async with running(server) as lanes:
        await opened(lanes, server)
        async with held(lanes, server, 2) as tasks:
            assert lanes.give_up(server.url) == 2
            for task in tasks:
                with pytest.raises(AnswerLost):
                    await task
        assert len(server.asked(PREPARE_PATH)) == 1


async def test_a_request_that_is_given_up_is_waited_for_no_more() -> None:
    server = Server(holding)
    async with running(server) as lanes:
        await opened(lanes, server)
        async with held(lanes, server, 1) as (task,):
            assert lanes.awaited() == {server.url}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert lanes.awaited() == set()


async def test_a_lane_that_is_not_opened_in_time_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_lanes, "_OPEN_S", 0.05)
    server = Mute()
    async with running(server) as lanes:
        assert await ask(lanes, server) == (200, b"http:x")
        await asyncio.wait_for(server.left.wait(), 30)
        assert lanes.open_lanes(server.url) == 0


async def test_lanes_end_with_the_gateway() -> None:
    server = Server()
    async with running(server) as lanes:
        await opened(lanes, server)
        await lanes.__aexit__(None, None, None)
        await eventually(lambda: lanes.open_lanes(server.url) == 0, "the end of the lane")


async def test_a_lane_under_way_ends_with_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_lanes, "_OPEN_S", 3600.0)
    server = Mute()
    async with running(server) as lanes:
        assert await ask(lanes, server) == (200, b"http:x")
        await eventually(lambda: server.asked(LANE_PATH) != [], "the question")
        await asyncio.wait_for(lanes.__aexit__(None, None, None), 30)
        await asyncio.wait_for(server.left.wait(), 30)


async def test_a_process_that_is_gone_refuses_the_connection() -> None:
    server = Server()
    async with running(server) as lanes:
        await opened(lanes, server)
        gone, server.url = server.url, WorkerUrl("http://127.0.0.1:9")
        with pytest.raises(ConnectFailed):
            await ask(lanes, server)
        server.url = gone
        assert await ask(lanes, server) == (200, b"lane:x")
