"""Bodies in chunks, with extensions and trailers."""

import asyncio

import pytest

from conch_kit.http_server.connection import HttpConnection
from conch_kit.http_server.limits import FRAMING_BYTES, LINGER_BYTES, LINGER_S, WORK_A_TURN
from conch_kit.http_server.parsing_turn import ParsingTurn
from conch_kit.http_server.refusal import RefusalAnswer
from testkit.http.http_caller import CallerTransport
from testkit.waiting import eventually

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
CHUNKED = b" HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("piece", [1, 10_000])
async def test_a_trailer_is_no_header_however_it_comes(caller, piece):
    head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    data = head + b"3\r\nabc\r\n0\r\nauthorization: Bearer key\r\nhost: y\r\n\r\n" + GET
    for at in range(0, len(data), piece):
        caller.sends(data[at : at + piece])
    await caller.answered(2)
    first, second = caller.taken
    assert (first.headers, first.body) == (((b"host", b"x"), (b"transfer-encoding", b"chunked")), b"abc")
    assert second.headers == ((b"host", b"x"),)


@pytest.mark.parametrize("pieces", [1, 50])
@pytest.mark.parametrize(
    "excess",
    [
        pytest.param(b"x: y\r\n" * 130, id="many"),
        pytest.param(b"x: " + b"y" * 2500 + b"\r\n", id="long"),
        pytest.param(b"x: " + b"y" * 2500, id="one without end"),
        pytest.param(b"x: y\r\n" * 129 + b"\r\n", id="many that end"),
    ],
)
async def test_trailers_have_the_bounds_of_a_head(caller, excess, pieces):
    caller.sends(b"POST /" + CHUNKED + b"3\r\nabc\r\n0\r\n")
    for at in range(0, len(excess), len(excess) // pieces):
        caller.sends(excess[at : at + len(excess) // pieces])
    assert caller.answers.startswith(b"HTTP/1.1 431 ")
    assert b"Expected trailers of at most " in caller.answers
    caller.goes_on.set()
    await asyncio.sleep(0.01)
    assert (caller.taken, caller.errors, caller.answers.count(b"HTTP/1.1 ")) == ([], [], 1)
    assert caller.transport.ended == "half"


async def test_trailers_that_come_in_one_piece_with_their_request_are_counted_too(caller):
    caller.sends(b"POST /" + CHUNKED + b"3\r\nabc\r\n0\r\n" + b"x: y\r\n" * 130)
    assert caller.answers.startswith(b"HTTP/1.1 431 ")


async def test_what_is_refused_behind_a_head_has_the_form_of_its_path(caller):
    caller.server.refusal_form = lambda target, message, request_id: RefusalAnswer(target + message.encode())
    caller.sends(b"POST /here" + CHUNKED + b"3\r\nabc\r\n0\r\n" + b"x: y\r\n" * 130)
    assert b"/hereExpected trailers" in caller.answers


@pytest.mark.parametrize("field", [b"connection: close", b"proxy-connection: close", b"Connection: x, Close"])
async def test_a_trailer_that_ends_the_connection_does_so_behind_the_answer(caller, field):
    caller.sends(b"POST /" + CHUNKED + b"3\r\nabc\r\n0\r\n" + field + b"\r\n\r\n")
    await caller.answered()
    assert b"\r\nconnection: close\r\n" in caller.answers
    assert caller.transport.ended == "closed"


async def test_nothing_is_read_behind_a_trailer_that_ends_the_connection(caller):
    caller.sends(b"POST /" + CHUNKED + b"3\r\nabc\r\n0\r\nconnection: close\r\n\r\n" + GET)
    await caller.answered()
    caller.sends(GET)
    assert caller.transport.ended
    assert [taken.method for taken in caller.taken] == ["POST"]


async def test_a_chunk_has_no_extension_without_end(caller):
    caller.sends(b"POST /" + CHUNKED + b"3;x=")
    for _ in range(3):
        caller.sends(b"y" * 1000)
    assert caller.answers.startswith(b"HTTP/1.1 431 ")


async def test_a_body_may_come_in_any_number_of_chunks_whose_sizes_come_alone(caller):
    caller.goes_on.set()
    caller.sends(b"POST /" + CHUNKED)
    for _ in range(500):
        caller.sends(b"0003\r\n")
        caller.sends(b"abc\r\n")
    caller.sends(b"0\r\nx: y\r\n\r\n")
    await caller.answered()
    assert caller.bodies == [b"abc" * 500]


async def test_a_body_of_empty_lines_leaves_others_their_turns(caller):
    caller.goes_on.set()
    body = b"x\r\n\r\n" * 50_000
    caller.sends(b"POST /" + CHUNKED + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    turns = 0
    while not caller.bodies and turns < 100_000:
        await asyncio.sleep(0)
        turns += 1
    assert (caller.bodies, caller.transport.reading) == ([body], True)
    assert turns > 50


async def test_behind_an_early_answer_a_body_in_chunks_is_read_without_a_look_at_it(caller):
    caller.sends(b"POST /early" + CHUNKED + b"3\r\nabc\r\n")
    await caller.answered()
    assert (b"connection: close" in caller.answers, caller.transport.ended) == (True, "half")
    turn, page = caller.server.turn, b"1\r\nx\r\n" * 600
    for _ in range(WORK_A_TURN // 2 - 10):
        caller.sends(page)
        assert (turn.spent, caller.transport.reading) == (False, True)
    caller.waits(LINGER_S)
    caller.waits(LINGER_S)
    assert caller.transport.ended == "closed"


async def test_behind_an_early_answer_only_so_much_of_a_body_is_read(caller):
    caller.sends(b"POST /early" + CHUNKED + b"3\r\nabc\r\n")
    await caller.answered()
    caller.sends(bytes(LINGER_BYTES))
    assert (caller.transport.ended, caller.transport.reading) == ("half", False)
    await eventually(lambda: caller.transport.reading, "reading, in a turn of its own")
    caller.sends(b"x")
    assert caller.transport.ended == "closed"


async def test_a_request_in_chunks_that_was_read_keeps_its_connection(caller):
    caller.sends(b"POST /" + CHUNKED + b"3\r\nabc\r\n0\r\n\r\n" + GET)
    await caller.answered(2)
    assert (caller.answers.count(b" 200 OK"), caller.transport.ended) == (2, "")


class WatchedTurn(ParsingTurn):
    """Tells what was done."""

    work = 0

    def spend(self, work):
        self.work += work
        super().spend(work)


@pytest.fixture
async def turn(caller):
    caller.server.turn = WatchedTurn(asyncio.get_running_loop())
    return caller.server.turn


async def test_the_chunks_of_all_callers_share_a_turn(caller, turn):
    many = [HttpConnection(caller.server) for _ in range(40)]
    transports = [CallerTransport() for _ in many]
    for each, transport in zip(many, transports, strict=True):
        each.connection_made(transport)
        each.data_received(b"POST /" + CHUNKED)
    await asyncio.sleep(0)
    turn.work = 0
    for each in many:
        each.data_received(b"1\r\nx\r\n" * 10_000)
    most, turns = turn.work, 0
    while turn.work:
        turn.work, turns = 0, turns + 1
        await asyncio.sleep(0)
        most = max(most, turn.work)
    assert (most < 2 * WORK_A_TURN, turns > 40) == (True, True)
    for each, transport in zip(many, transports, strict=True):
        each.connection_lost(None)
        transport.close_sockets()  # on a slow machine somebody has looked whether these callers have hung up


async def test_what_was_sent_before_a_hang_up_is_parsed_no_more(caller, turn):
    played = HttpConnection(caller.server)
    transport = CallerTransport()
    played.connection_made(transport)
    played.data_received(b"POST /" + CHUNKED + b"1\r\nx\r\n" * 10_000)
    assert turn.work > WORK_A_TURN // 2
    assert not transport.reading
    transport.close()
    turn.work = 0
    await asyncio.sleep(0)
    assert turn.work == 0
    played.connection_lost(None)


@pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"3;" + b"e" * 1500 + b"\r\nabc\r\n"], ids=["small", "extended"])
async def test_a_body_that_is_mostly_framing_is_refused(caller, chunk):
    caller.goes_on.set()
    caller.sends(b"POST /" + CHUNKED)
    sent = 0
    while sent < FRAMING_BYTES - len(chunk):
        caller.sends(chunk)
        sent += len(chunk)
        await asyncio.sleep(0)
    assert not caller.answers
    for _ in range(FRAMING_BYTES // len(chunk)):
        caller.sends(chunk)
        await asyncio.sleep(0)
    assert caller.answers.startswith(b"HTTP/1.1 400 ")
    assert b"Expected a body in larger chunks: " in caller.answers
    assert (caller.bodies, caller.transport.ended) == ([], "half")


async def test_a_long_body_in_chunks_of_some_bytes_is_taken(caller):
    caller.goes_on.set()
    caller.sends(b"POST /" + CHUNKED)
    for _ in range(200):
        caller.sends(b"10;x=y\r\n0123456789abcdef\r\n" * 100)
        await eventually(lambda: caller.transport.reading, "reading")
    caller.sends(b"0\r\n\r\n")
    await caller.answered()
    assert caller.bodies == [b"0123456789abcdef" * 20_000]


@pytest.mark.parametrize("rest", [b"0\r\n" + b"x: y\r\n" * 400, b"nonsense\r\n"])
async def test_behind_an_early_answer_no_other_says_what_is_wrong_with_the_rest(caller, rest):
    caller.sends(b"POST /early" + CHUNKED + b"3\r\nabc\r\n")
    await caller.answered()
    caller.sends(rest)
    assert (caller.answers.count(b"HTTP/1.1 "), caller.transport.ended) == (1, "half")


async def test_an_answer_that_has_begun_ends_with_trailers_out_of_bounds(caller):
    caller.sends(b"POST /reads-later" + CHUNKED + b"3\r\nabc\r\n")
    caller.goes_on.set()
    await eventually(lambda: b" 200 " in caller.answers, "the beginning")
    caller.sends(b"0\r\n" + b"x: y\r\n" * 400)
    assert (caller.answers.count(b"HTTP/1.1 "), caller.transport.ended) == (1, "closed")
