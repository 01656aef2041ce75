"""A stream's bytes between worker and client."""

import time

import pytest

from conch_contracts.messages.generation import Usage
from conch_gateway.answers.sse_frames import FrameRelay, FrameTooLong, error_frame, parse_usage
from conch_kit.errors import UpstreamError

FRAMES = b'data: {"a":1}\n\ndata: {"a":2}\n\ndata: [DONE]\n\n'
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
STREAM = FRAMES + USAGE


@pytest.mark.parametrize("size", [*range(1, 30), len(FRAMES), len(STREAM)])
def test_however_the_bytes_are_cut_the_client_gets_the_frames_and_we_the_usage(size):
    relay = FrameRelay()
    pieces = [relay.feed(STREAM[at : at + size]) for at in range(0, len(STREAM), size)]
    assert b"".join(pieces) == FRAMES
    assert all(piece == b"" or piece.endswith(b"\n\n") for piece in pieces)
    assert relay.usage() == Usage(prompt_tokens=3, completion_tokens=2)
    assert relay.done


WORKING = b": working\n\n"
WORKED = WORKING + FRAMES[:15] + WORKING * 2 + FRAMES[15:] + WORKING + USAGE


@pytest.mark.parametrize("size", [*range(1, 30), len(WORKED)])
def test_signs_of_work_stay_here_wherever_they_come_and_however_they_are_cut(size):
    relay = FrameRelay()
    pieces = [relay.feed(WORKED[at : at + size]) for at in range(0, len(WORKED), size)]
    assert b"".join(pieces) == FRAMES
    assert (relay.usage(), relay.done) == (Usage(prompt_tokens=3, completion_tokens=2), True)


def test_other_comments_and_text_that_looks_like_one_pass():
    relay = FrameRelay()
    data = b': keep-alive\n\ndata: {"a":"\\n\\n: usage x"}\n\n: working hard\n\n'
    assert relay.feed(data) == data
    assert (relay.usage(), relay.done) == (None, False)


@pytest.mark.parametrize("before", [b"data: ", b'data: 1\n\n: usage {"a":"'], ids=["frame", "end"])
def test_what_comes_in_many_pieces_takes_a_time_that_grows_with_its_length_alone(before):
    def took_s(pieces):
        relay = FrameRelay(limit=2**30)
        began = time.thread_time()
        relay.feed(before)
        for _ in range(pieces):
            relay.feed(b"x" * 1000)
        assert not relay.feed(b'"}\n\n').startswith(b":")
        return time.thread_time() - began

    assert min(took_s(8_000) for _ in range(3)) < 10 * min(took_s(2_000) for _ in range(3))


def test_a_frame_without_end_is_not_kept_for_ever():
    relay = FrameRelay()
    with pytest.raises(FrameTooLong):
        relay.feed(b"x" * 5_000_000)


def test_a_usage_without_end_is_not_kept_for_ever():
    relay = FrameRelay()
    relay.feed(USAGE)
    assert relay.overlong(b"x" * 5_000_000)
    with pytest.raises(FrameTooLong):
        relay.feed(b"x" * 5_000_000)


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        (b"{}", None),
        (b"x", None),
        (b'{"prompt_tokens":-1,"completion_tokens":2}', Usage(prompt_tokens=0, completion_tokens=2)),
    ],
)
def test_a_usage_that_cannot_be_is_not_believed(text, usage):
    assert parse_usage(text) == usage


def test_an_error_frame_is_one_line():
    frame = error_frame(UpstreamError("two\nlines", code="upstream_lost"))
    assert frame.startswith(b'data: {"error"')
    assert frame.count(b"\n") == 2
