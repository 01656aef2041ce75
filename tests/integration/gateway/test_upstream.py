"""The HTTP client of the gateway against a real server that misbehaves."""

import asyncio
import socket

import pytest

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream import connection_pool
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_gateway.upstream.port import AnswerLost, ConnectFailed, ConnectTimedOut, Post, read_all
from testkit.servers.scripted_http import ScriptedHttp
from testkit.waiting import eventually

HANGS_S = 30


@pytest.fixture
async def pool():
    async with ConnectionPool() as client:
        yield client


def post(server, body=b"{}"):
    return Post(WorkerUrl(server.url), "/x", ((b"x-request-id", b"r1"),), body)


async def ask(client, server, body=b"{}"):
    async with client.post(post(server, body)) as answer:
        return answer.status, await read_all(answer, limit=10**7)


async def test_requests_share_a_connection_and_arrive_whole(pool):
    async def echo(call):
        await call.answer(call.body, headers={"x-a": "b"})

    async with ScriptedHttp(echo) as server:
        for body in (b"{}", b"x" * 500_000):
            assert await ask(pool, server, body) == (200, body)
        assert server.connections == 1
        assert server.calls[0].headers["x-request-id"] == "r1"
        assert server.calls[0].headers["content-type"] == "application/json"


async def test_an_interim_answer_is_not_the_answer(pool):
    async def hinting(call):
        await call.raw(b"HTTP/1.1 103 Early Hints\r\nx-a: hint\r\n\r\n")
        await call.answer(b"said", headers={"x-b": "c"})

    async with ScriptedHttp(hinting) as server:
        for _ in range(2):
            async with pool.post(post(server)) as answer:
                assert (answer.status, await read_all(answer, limit=100)) == (200, b"said")
                assert (answer.headers.get(b"x-a"), answer.headers[b"x-b"]) == (None, b"c")
        assert server.connections == 1


async def test_pieces_arrive_as_they_are_sent(pool):
    go = asyncio.Event()

    async def stream(call):
        await call.begin()
        await call.chunk(b"one")
        await go.wait()
        await call.chunk(b"two")
        await call.chunk(b"")

    async with ScriptedHttp(stream) as server, pool.post(post(server)) as answer:
        assert await answer.read() == b"one"
        go.set()
        assert await answer.read() == b"two"
        assert await answer.read() == b""


async def test_pieces_are_pushed_until_the_sink_declines_one(pool):
    steps = [asyncio.Event() for _ in range(3)]
    taken: list[bytes] = []

    def sink(piece):
        if piece.startswith(b"no"):
            return False
        taken.append(piece)
        steps[len(taken)].set()
        return True

    async def stream(call):
        await call.begin()
        await steps[0].wait()
        for number, piece in enumerate((b"one", b"two", b"no", b"last")):
            await call.chunk(piece)
            if number < 2:
                await steps[number + 1].wait()
        await call.chunk(b"")

    async with ScriptedHttp(stream) as server, pool.post(post(server)) as answer:
        pushing = asyncio.create_task(answer.push(sink))
        steps[0].set()
        await pushing
        assert taken == [b"one", b"two"]
        assert await read_all(answer, limit=100) == b"nolast"


async def test_a_connection_that_breaks_while_pieces_are_pushed_is_lost(pool):
    async def cut(call):
        await call.begin()
        await call.chunk(b"one")
        await go.wait()
        call.close()

    go = asyncio.Event()
    async with ScriptedHttp(cut) as server, pool.post(post(server)) as answer:
        assert await answer.read() == b"one"
        go.set()
        with pytest.raises(AnswerLost):
            await answer.push(lambda piece: True)


async def test_nobody_listening_is_a_failed_connect(pool):
    async with ScriptedHttp(lambda call: call.answer(b"")) as server:
        pass
    with pytest.raises(ConnectFailed):
        await ask(pool, server)


async def test_a_listener_whose_queue_is_full_is_a_connect_that_took_too_long():
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        host, port = listener.getsockname()
        message = Post(WorkerUrl(f"http://{host}:{port}"), "/x", (), b"{}")
        async with ConnectionPool(connect_timeout_s=0.2) as client:
            with pytest.raises(ConnectTimedOut):
                async with client.post(message):
                    pass


async def test_a_broken_stream_is_lost(pool):
    async def cut(call):
        await call.begin()
        await call.chunk(b"one")
        call.close()

    async with ScriptedHttp(cut) as server, pool.post(post(server)) as answer:
        with pytest.raises(AnswerLost) as caught:
            await read_all(answer, limit=100)
        assert caught.value.started


async def test_leaving_early_closes_the_connection_at_once(pool):
    noticed = asyncio.Event()

    async def wait(call):
        await call.begin()
        await call.chunk(b"one")
        await call.closed()
        noticed.set()

    async with ScriptedHttp(wait) as server:
        async with pool.post(post(server)) as answer:
            assert await answer.read() == b"one"
        await asyncio.wait_for(noticed.wait(), HANGS_S)


async def test_cancelling_before_the_head_closes_the_connection_at_once(pool):
    arrived, noticed = asyncio.Event(), asyncio.Event()

    async def wait(call):
        arrived.set()
        await call.closed()
        noticed.set()

    async with ScriptedHttp(wait) as server:
        task = asyncio.create_task(ask(pool, server))
        await asyncio.wait_for(arrived.wait(), HANGS_S)
        task.cancel()
        await asyncio.wait_for(noticed.wait(), HANGS_S)


async def test_all_connections_end_with_the_client():
    closed = asyncio.Event()

    async def wait(call):
        await call.begin()
        await call.closed()
        closed.set()

    async with ScriptedHttp(wait) as server:
        async with ConnectionPool() as ending:
            answer = ending.post(post(server))
            await answer.__aenter__()
        await asyncio.wait_for(closed.wait(), HANGS_S)


async def test_a_connection_whose_answer_nobody_read_is_not_used_again(pool):
    async with ScriptedHttp(lambda call: call.answer(b"x" * 100_000)) as server:
        async with pool.post(post(server)) as answer:
            await eventually(lambda: answer._complete, "the whole answer")
        assert await asyncio.wait_for(ask(pool, server), HANGS_S) == (200, b"x" * 100_000)
        assert server.connections == 2


async def test_a_connection_that_its_server_will_not_keep_is_not_used_again(pool):
    async def last(call):
        await call.answer(b"ok", headers={"connection": "close"})

    async with ScriptedHttp(last) as server:
        for _ in range(2):
            assert await ask(pool, server) == (200, b"ok")
        assert (server.connections, len(server.calls)) == (2, 2)


async def test_only_so_many_connections_are_kept(monkeypatch):
    monkeypatch.setattr(connection_pool, "MAX_IDLE_PER_HOST", 2)
    closed, together = [], asyncio.Barrier(4)

    async def once(call):
        await together.wait()
        await call.answer(b"ok")
        await call.closed()
        closed.append(call)

    async with ScriptedHttp(once) as server, ConnectionPool() as pool:
        await asyncio.gather(*(ask(pool, server) for _ in range(4)))
        await eventually(lambda: len(closed) == 2, "the end of two connections")


async def test_a_kept_connection_that_the_server_drops_unread_is_replaced(pool):
    async def once(call):
        if len(server.calls) == 2:
            call.close()  # as if it had been closed while the request was under way
        else:
            await call.answer(b"ok")

    async with ScriptedHttp(once) as server:
        assert await ask(pool, server) == (200, b"ok")
        assert await ask(pool, server) == (200, b"ok")
        assert (server.connections, len(server.calls)) == (2, 3)


async def test_a_process_that_ends_over_a_request_on_a_kept_connection_has_lost_it(pool):
    async def die_at_the_second(call):
        if len(server.calls) == 2:
            server.stop_listening()
            call.close()
        else:
            await call.answer(b"ok")

    async with ScriptedHttp(die_at_the_second) as server:
        await ask(pool, server)
        with pytest.raises(AnswerLost) as caught:
            await ask(pool, server)
        assert not caught.value.started


async def test_a_request_of_which_a_byte_came_back_is_not_sent_once_more(pool):
    async def die_in_the_second_head(call):
        if len(server.calls) == 2:
            await call.raw(b"HTTP/1.1 200")
            call.finish()
        else:
            await call.answer(b"ok")

    async with ScriptedHttp(die_in_the_second_head) as server:
        await ask(pool, server)
        with pytest.raises(AnswerLost):
            await ask(pool, server)
        assert len(server.calls) == 2


async def test_a_request_that_was_given_up_is_not_sent_once_more_to_the_same_process(pool):
    asked = asyncio.Event()

    async def freeze_at_the_second(call):
        if len(server.calls) == 2:
            asked.set()
            await call.closed()
        else:
            await call.answer(b"ok")

    async with ScriptedHttp(freeze_at_the_second) as server:
        await ask(pool, server)
        waiting = asyncio.create_task(ask(pool, server))
        await asyncio.wait_for(asked.wait(), HANGS_S)
        assert pool.give_up(server.url) == 1
        with pytest.raises(AnswerLost):
            await asyncio.wait_for(waiting, HANGS_S)
        assert len(server.calls) == 2


@pytest.mark.parametrize(("max_idle_s", "connections"), [(0, 2), (60, 1)])
async def test_a_connection_that_idled_for_longer_than_servers_keep_one_is_not_used_again(max_idle_s, connections):
    async with ScriptedHttp(lambda call: call.answer(b"ok")) as server, ConnectionPool(max_idle_s=max_idle_s) as pool:
        for _ in range(2):
            assert await ask(pool, server) == (200, b"ok")
        assert server.connections == connections


async def test_a_fresh_connection_that_is_dropped_is_not_tried_again(pool):
    async def drop(call):
        call.close()

    async with ScriptedHttp(drop) as server:
        with pytest.raises(AnswerLost) as caught:
            await ask(pool, server)
        assert not caught.value.started
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    "garbage", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", b"\x00" * 99]
)
async def test_what_is_not_http_is_lost(pool, garbage):
    async with ScriptedHttp(lambda call: call.raw(garbage)) as server:
        with pytest.raises(AnswerLost):
            await ask(pool, server)


async def test_an_endless_head_is_lost(pool):
    async def endless(call):
        await call.raw(b"HTTP/1.1 200 OK\r\n")
        while True:
            await call.raw(b"x-a: " + b"b" * 8192 + b"\r\n")

    async with ScriptedHttp(endless) as server:
        with pytest.raises(AnswerLost):
            await asyncio.wait_for(ask(pool, server), HANGS_S)


@pytest.mark.parametrize("later", [False, True], ids=["with the answer", "on a kept connection"])
async def test_an_unasked_answer_makes_a_connection_unusable(pool, later):
    closed, kept = asyncio.Event(), asyncio.Event()

    async def twice(call):
        await call.answer(b"ok")
        if later:
            await kept.wait()
        await call.answer(b"stray")
        await call.closed()
        closed.set()

    async with ScriptedHttp(twice) as server:
        assert (await ask(pool, server))[0] == 200
        kept.set()
        await asyncio.wait_for(closed.wait(), HANGS_S)
        assert await ask(pool, server) == (200, b"ok")
        assert server.connections == 2


async def test_an_answer_without_length_ends_with_the_connection(pool):
    async def until_eof(call):
        await call.raw(b"HTTP/1.1 200 OK\r\n\r\nabc")
        call.finish()

    async with ScriptedHttp(until_eof) as server:
        assert await ask(pool, server) == (200, b"abc")


async def test_a_reader_that_lags_holds_the_sender_back(pool):
    sent = 0

    async def flood(call):
        nonlocal sent
        await call.begin()
        for _ in range(400):
            await call.chunk(b"x" * 65536)
            sent += 65536
        await call.chunk(b"")

    async with ScriptedHttp(flood) as server, pool.post(post(server)) as answer:
        await asyncio.sleep(0.3)
        assert sent < 16_000_000
        assert len(await read_all(answer, limit=10**8)) == 400 * 65536
