"""A caller's connection with a transport in memory and a clock that the test moves."""

import asyncio

import pytest

from conch_kit.errors import RequestTimeout
from testkit.waiting import eventually

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_hang_up_can_be_noticed_after_a_body_of_any_size(caller, size):
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
    assert caller.transport.reading


async def test_a_body_is_read_no_faster_than_it_is_taken(caller):
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + b"x" * 100_000)
    assert not caller.transport.reading
    caller.goes_on.set()
    await eventually(lambda: caller.transport.reading, "the application to take some")
    caller.sends(b"x" * 100_000)
    await caller.answered()
    assert caller.bodies == [b"x" * 200_000]


async def test_requests_that_come_together_are_answered_in_order_and_read_no_further_meanwhile(caller):
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na" + GET + GET)
    assert not caller.transport.reading
    await caller.answered(3)
    assert caller.bodies == [b"a", b"", b""]
    assert caller.transport.reading


@pytest.mark.parametrize("piece", [1, 7, 60, 10_000])
async def test_an_offer_of_another_protocol_is_passed_over_however_it_comes(caller, piece):
    offer = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\ncontent-length: 3\r\n\r\nabc"
    caller.goes_on.set()
    data = offer + GET + offer
    for at in range(0, len(data), piece):
        caller.sends(data[at : at + piece])
        await asyncio.sleep(0)
    await caller.answered(3)
    assert caller.bodies == [b"abc", b"", b"abc"]


async def test_nothing_is_read_behind_a_connect(caller):
    caller.sends(b"CONNECT / HTTP/1.1\r\nhost: x\r\n\r\n" + GET)
    await caller.answered()
    assert b"connection: close" in caller.answers
    assert [request.method for request in caller.taken] == ["CONNECT"]


async def test_a_head_has_a_time_and_so_has_the_next_one(caller):
    caller.sends(GET)
    caller.waits(1000)
    await caller.answered()
    caller.sends(b"GET / HTTP/1.1\r\nhost:")
    caller.waits(9)
    assert b" 408 " not in caller.answers
    caller.waits(2)
    assert b" 408 " in caller.answers
    assert b"did not arrive within 10 s" in caller.answers


async def test_a_body_has_a_time(caller):
    caller.goes_on.set()
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    await asyncio.sleep(0)
    caller.waits(29)
    caller.sends(b"d")
    caller.waits(2)
    await eventually(lambda: caller.errors, "the end of patience")
    assert isinstance(caller.errors[0], RequestTimeout)
    assert caller.errors[0].message == "The request body did not arrive within 30 s."


async def test_the_time_of_a_body_begins_when_it_is_read(caller):
    caller.sends(GET + b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    caller.waits(60)
    await caller.answered()
    assert caller.transport.reading
    caller.waits(29)
    caller.sends(b"d")
    await asyncio.sleep(0)
    assert not caller.errors
    caller.waits(2)
    await eventually(lambda: caller.errors, "the end of patience")
    assert isinstance(caller.errors[0], RequestTimeout)


async def test_a_body_that_may_take_longer_has_its_time_as_long_as_it_comes_on(caller):
    caller.goes_on.set()
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\na")
    caller.connection.allow_body(100)
    for _ in range(3):
        caller.waits(29)
        caller.sends(b"b")
    await asyncio.sleep(0)
    assert not caller.errors
    caller.waits(14)
    await eventually(lambda: caller.errors, "the end of patience")
    assert isinstance(caller.errors[0], RequestTimeout)


async def test_a_body_that_may_take_longer_and_stands_still_does_not_get_that_time(caller):
    caller.goes_on.set()
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    caller.connection.allow_body(1000)
    caller.waits(20)
    caller.sends(b"d")
    caller.waits(29)
    await asyncio.sleep(0)
    assert not caller.errors
    caller.waits(2)
    await eventually(lambda: caller.errors, "the end of patience")


async def test_the_time_that_one_body_may_take_is_not_that_of_the_next(caller):
    caller.goes_on.set()
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n")
    caller.connection.allow_body(1000)
    caller.sends(b"a")
    await caller.answered()
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    caller.waits(31)
    await eventually(lambda: caller.errors, "the end of patience")


async def test_the_rest_of_a_body_that_was_answered_early_has_the_same_time(caller):
    caller.sends(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    await caller.answered()
    caller.waits(29)
    caller.sends(b"d")
    assert not caller.transport.ended
    caller.waits(2)
    assert caller.transport.ended == "closed"


async def test_behind_the_rest_of_a_body_that_was_answered_early_comes_the_next_request(caller):
    caller.sends(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nabc")
    await caller.answered()
    caller.sends(b"de")
    caller.waits(60)
    caller.sends(GET)
    await caller.answered(2)
    assert not caller.transport.ended


async def test_a_new_connection_may_not_stay_silent(caller):
    caller.waits(11)
    assert b" 408 " in caller.answers


async def test_a_kept_connection_ends_after_a_while(caller):
    caller.sends(GET)
    await caller.answered()
    caller.waits(70)
    assert not caller.transport.ended
    caller.waits(10)
    assert caller.transport.ended == "closed"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n", 400, id="two hosts"),
        pytest.param(b"GET / HTTP/1.1\r\na: b\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x y\r\n\r\n", 400, id="a host with a space"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", 400, id="a host with a path"),
        pytest.param(b"GET http://x/ HTTP/1.1\r\nhost: x\r\n\r\n", 400, id="no path"),
        pytest.param(b"GET / HTTP/2.0\r\nhost: x\r\n\r\n", 400, id="another version"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 128 + b"\r\n", 431, id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"b" * 2000, 431, id="a head without end"),
        pytest.param(b"GET /" + b"b" * 2000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 431, id="a long target"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="no HTTP"),
        pytest.param(b"GET / RTSP/1.0\r\n\r\n", 400, id="RTSP"),
        pytest.param(b"\r\nGET / RTSP/1.1\r\nhost: x\r\n\r\n", 400, id="RTSP behind an empty line"),
        pytest.param(b"SOURCE / ICE/1.0\r\n\r\n", 400, id="ICE"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 501, id="compressed"),
        pytest.param(
            b"GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: x\r\ntransfer-encoding: chunked\r\n\r\n",
            501,
            id="coded twice",
        ),
    ],
)
async def test_a_head_out_of_bounds_or_of_two_meanings_is_refused(caller, head, status):
    caller.sends(head)
    assert caller.answers.startswith(b"HTTP/1.1 %d " % status)
    assert (caller.answers.count(b"HTTP/1.1 "), caller.transport.ended) == (1, "half")


async def test_heads_that_come_in_one_piece_are_not_one_long_head(caller):
    caller.sends(b"GET / HTTP/1.1\r\n")
    caller.sends(b"host: x\r\n\r\n" + GET * 100 + b"GET / HTTP/1.1\r\n")
    assert b" 431 " not in caller.answers
    await caller.answered(101)


async def test_spaces_around_a_value_are_no_part_of_it(caller):
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\na:\t b c \t \r\ntransfer-encoding: chunked \r\n\r\n0\r\n\r\n")
    await caller.answered()
    assert caller.taken[0].headers == ((b"host", b"x"), (b"a", b"b c"), (b"transfer-encoding", b"chunked"))


async def test_an_answer_that_is_under_way_comes_before_what_is_no_http(caller):
    caller.sends(GET + b"nonsense\r\n\r\n")
    assert not caller.answers
    await caller.answered(2)
    first, second = caller.answers.split(b"HTTP/1.1 ")[1:]
    assert (first[:3], second[:3], caller.transport.ended) == (b"200", b"400", "half")


@pytest.mark.parametrize("line", [b"", b"expect: 100-continue\r\n"])
async def test_a_body_that_is_no_http_is_refused_and_the_application_hears_of_it(caller, line):
    head = b"POST / HTTP/1.1\r\nhost: x\r\n%btransfer-encoding: chunked\r\n\r\n" % line
    caller.sends(head + b"3\r\nabc\r\nnonsense\r\n")
    assert caller.answers.startswith(b"HTTP/1.1 400 ")
    caller.goes_on.set()
    await asyncio.sleep(0.01)
    assert (caller.bodies, caller.errors, caller.answers.count(b"HTTP/1.1 ")) == ([], [], 1)


async def test_an_early_answer_to_a_request_that_closes_is_seen_before_the_rest_is_sent(caller):
    caller.sends(b"POST /early HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 100\r\n\r\nabc")
    await caller.answered()
    assert caller.transport.ended == "half"
    caller.sends(b"x" * 97)
    assert caller.answers.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("reads", [True, False])
async def test_a_caller_that_reads_nothing_of_the_end_of_its_answer_is_dropped(caller, reads):
    caller.transport.unread = 10
    caller.sends(GET)
    await caller.answered()
    for _ in range(2):
        caller.transport.unread -= reads
        caller.waits(31)
    assert caller.transport.ended == ("" if reads else "aborted")


@pytest.mark.parametrize("rest", [b"0\r\n\r\n", b"nonsense\r\n"])
async def test_an_answer_that_breaks_off_waits_no_longer_for_a_caller_that_reads_nothing(caller, rest):
    caller.sends(b"POST /breaks-off HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    await caller.answered()
    caller.transport.unread = 10
    caller.sends(rest)
    await eventually(lambda: caller.transport.ended == "closed", "the end")
    caller.waits(31)
    assert caller.transport.ended == "aborted"


async def test_an_answer_that_ends_behind_the_end_of_its_caller_does_not_wait_for_ever_to_be_read(caller):
    caller.sends(GET)
    caller.transport.unread = 10
    caller.transport.close()  # as it is when the caller says that nothing more comes
    await caller.answered()
    caller.waits(31)
    assert caller.transport.ended == "aborted"


async def test_a_refusal_that_is_not_read_does_not_keep_its_connection_open(caller):
    caller.transport.unread = 10
    caller.sends(b"GET / HTTP/1.1\r\nno: host\r\n\r\n")
    for seconds in (3, 31):
        caller.waits(seconds)
    assert caller.transport.ended == "aborted"


async def test_a_stream_is_chunked_and_ends(caller):
    caller.sends(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
    await caller.answered()
    head, _, body = caller.answers.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"
    assert not caller.transport.ended


@pytest.mark.parametrize("path", [b"/", b"/stream"])
async def test_to_http_1_0_the_end_of_the_connection_is_the_end_of_the_answer(caller, path):
    caller.sends(b"GET %b HTTP/1.0\r\n\r\n" % path)
    await caller.answered()
    head, _, body = caller.answers.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert (b"connection: close" in head, caller.transport.ended) == (True, "closed")
    assert body == (b"ok" if path == b"/" else b"onetwothree")


async def test_the_answer_to_head_has_no_body(caller):
    caller.sends(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n" + GET)
    await caller.answered(2)
    first, second = caller.answers.split(b"HTTP/1.1 ")[1:]
    assert b"content-length: 2" in first
    assert (first.endswith(b"\r\n\r\n"), second.endswith(b"\r\n\r\nok")) == (True, True)


@pytest.mark.parametrize("piece", [1, 9, 14])
async def test_another_protocol_is_refused_however_it_comes(caller, piece):
    data = b"GET / RTSP/1.0\r\nhost: x\r\n\r\n"
    for at in range(0, len(data), piece):
        caller.sends(data[at : at + piece])
    assert b"Expected HTTP/1.1." in caller.answers


@pytest.mark.parametrize("lines", [b"\r\n" * 1000, b"\n" * 1000, b"\r\n" * 9])
@pytest.mark.parametrize("piece", [1, 1000])
async def test_a_kept_connection_takes_a_few_empty_lines(caller, lines, piece):
    caller.sends(GET)
    await caller.answered()
    caller.sends(b"\r\n" * 4 + GET)
    await caller.answered(2)
    assert caller.answers.count(b" 200 OK") == 2
    for at in range(0, len(lines), piece):
        caller.sends(lines[at : at + piece])
    assert (b"HTTP/1.1 400 " in caller.answers, caller.transport.ended) == (True, "half")


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\r\n",
    ],
)
async def test_whoever_is_to_send_no_body_or_knows_no_word_gets_none(caller, head):
    caller.goes_on.set()
    caller.sends(head)
    await asyncio.sleep(0.01)
    caller.sends(b"ab" if b"HTTP/1.0" in head else b"")
    await caller.answered()
    assert (b" 100 " in caller.answers, caller.answers.count(b" 200 OK")) == (False, 1)


async def test_a_caller_that_waits_for_a_word_before_its_body_gets_it(caller):
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    caller.goes_on.set()
    await eventually(lambda: b" 100 Continue\r\n\r\n" in caller.answers, "the word")
    caller.sends(b"ab")
    await caller.answered(2)
    assert caller.bodies == [b"ab"]


@pytest.mark.parametrize(
    ("path", "answer", "ended"),
    [(b"/broken", b" 500 ", "closed"), (b"/split", b" 500 ", "closed"), (b"/wrong", b" 200 ", "closed")],
)
async def test_an_application_that_fails_leaves_no_half_answer(caller, path, answer, ended):
    caller.sends(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)
    await caller.answered()
    await eventually(lambda: caller.transport.ended, "the end")
    assert (answer in caller.answers, caller.transport.ended) == (True, ended)
    assert b"b: c" not in caller.answers


async def test_whoever_hangs_up_is_noticed_at_once(caller):
    heard = []
    caller.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    caller.connection.on_gone = lambda: heard.append("gone")
    caller.goes_on.set()
    await asyncio.sleep(0)
    caller.hangs_up()
    assert heard == ["gone"]
    await asyncio.wait_for(caller.server.finish(), 10)
    assert (caller.bodies, caller.errors) == ([], [])


async def test_a_server_that_ends_lets_the_request_under_way_end_and_takes_no_other(caller):
    caller.sends(GET)
    ending = asyncio.create_task(caller.server.finish())
    await asyncio.sleep(0)
    assert not caller.transport.ended
    await caller.answered()
    assert (b"connection: close" in caller.answers, caller.transport.ended) == (True, "closed")
    caller.hangs_up()
    await asyncio.wait_for(ending, 10)


async def test_a_server_that_ends_closes_idle_connections(caller):
    ending = asyncio.create_task(caller.server.finish())
    await asyncio.sleep(0)
    assert caller.transport.ended == "closed"
    caller.hangs_up()
    await asyncio.wait_for(ending, 10)
