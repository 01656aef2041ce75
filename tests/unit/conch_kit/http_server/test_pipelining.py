"""Requests that a caller sends before it has the answers to those in front of them."""

import gc

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch_kit.http_server.limits import LINGER_S
from conch_kit.http_server.request import Request
from conch_kit.http_server.unparsed_bytes import UnparsedBytes

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
OFFER = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
LONG = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 7\r\n\r\n\r\n\r\nGET"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n6\r\na\r\n\r\nb\r\n0\r\nt: v\r\n\r\n"


def requests():
    return sum(isinstance(each, Request) for each in gc.get_objects())


@pytest.mark.parametrize("sent", [GET, OFFER, LONG, CHUNKED])
async def test_of_many_requests_that_come_together_each_is_made_when_the_one_before_is_answered(caller, sent):
    gc.collect()
    before = requests()
    caller.sends(sent * 1200)
    assert (requests() - before, caller.transport.reading) == (1, False)
    await caller.answered(10)
    assert requests() - before < 5
    await caller.answered(1200)
    assert (caller.answers.count(b" 200 OK"), caller.transport.reading, caller.transport.ended) == (1200, True, "")


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 11, 10_000])
async def test_requests_are_told_apart_however_they_come(caller, piece):
    data = GET + LONG + b"\r\n" + CHUNKED + OFFER + b"\r\n\r\n\r\n" + LONG + GET
    for at in range(0, len(data), piece):
        caller.sends(data[at : at + piece])
    await caller.answered(6)
    assert caller.bodies == [b"", b"\r\n\r\nGET", b"a\r\n\r\nb", b"", b"\r\n\r\nGET", b""]
    assert caller.transport.reading


async def test_a_last_answer_with_something_behind_its_request_is_not_lost_by_a_reset(caller):
    caller.sends(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" + GET)
    await caller.answered()
    assert (caller.answers.count(b"HTTP/1.1 "), caller.transport.ended, caller.transport.reading) == (1, "half", True)
    caller.waits(LINGER_S + 0.1)
    assert caller.transport.ended == "closed"


@pytest.mark.parametrize("offered", [GET[:-1], GET[:20], b"G"])
async def test_the_time_of_a_head_begins_when_the_answer_before_it_is_given(caller, offered):
    caller.sends(GET + offered)
    caller.waits(60)
    await caller.answered()
    assert caller.transport.reading
    caller.waits(9)
    caller.sends(GET[len(offered) :])
    await caller.answered(2)
    assert (caller.answers.count(b" 200 OK"), caller.transport.ended) == (2, "")


async def test_half_a_head_behind_an_answer_is_refused_in_words(caller):
    caller.sends(GET + GET[:20])
    caller.waits(60)
    await caller.answered()
    caller.waits(11)
    assert (caller.answers.count(b"HTTP/1.1 "), b" 408 " in caller.answers) == (2, True)


_TEXTS = st.sampled_from(
    [GET, LONG, CHUNKED, OFFER, b"GET / HTTP/1.1", b"GET /", b"a: b", b"content-length: 3", b"abc", b"0", b"3;x=y"]
)
_ENDS = st.sampled_from([b"", b"", b"\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\n\n"])


class Ends:
    """What the parser ends within one piece."""

    def __init__(self) -> None:
        self.unparsed = UnparsedBytes()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.length = 0
        self.seen = ""

    def parses(self, data: bytes) -> None:
        self.unparsed.add(data)
        while self.unparsed.waiting:
            self.seen = ""
            piece = self.unparsed.next_piece()
            taken = len(piece)
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as offer:
                taken = offer.args[0]
            assert taken == len(piece)
            assert self.seen in ("", "head", "head end", "end"), (data, piece)

    def on_message_begin(self) -> None:
        self.length = 0
        if "end" in self.seen:
            self.seen += " another"

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-length":
            self.length = int(value)

    def on_headers_complete(self) -> None:
        self.seen += "head"
        if not self.parser.should_upgrade():
            self.unparsed.body_left = self.length

    def on_body(self, body: bytes) -> None:
        if self.seen:
            self.seen += " body"

    def on_message_complete(self) -> None:
        self.seen = f"{self.seen} end".strip()


@given(texts=st.lists(st.tuples(_TEXTS, _ENDS), max_size=8), cut=st.integers(1, 100))
def test_no_piece_goes_on_behind_the_end_of_a_head_or_a_request(texts: list[tuple[bytes, bytes]], cut: int) -> None:
    data, ends = b"".join(text + end for text, end in texts), Ends()
    try:
        for at in range(0, len(data), cut):
            ends.parses(data[at : at + cut])
    except httptools.HttpParserError:
        pass  # such a caller is refused
