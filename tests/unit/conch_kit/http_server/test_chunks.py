"""Bodies in chunks, with extensions and trailers."""

import asyncio

import pytest

from conch_kit.http_server.limits import LINGER_BYTES
from conch_kit.http_server.refusal import RefusalAnswer
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
    assert turns > 100


async def test_behind_an_early_answer_extensions_count_too(caller):
    caller.sends(b"POST /early" + CHUNKED + b"3\r\nabc\r\n")
    await caller.answered()
    chunks = (b"1;" + b"e" * 1500 + b"\r\nx\r\n") * 1000
    for _ in range(LINGER_BYTES // len(chunks)):
        caller.sends(chunks)
    assert not caller.transport.ended
    caller.sends(chunks)
    assert caller.transport.ended == "closed"


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
