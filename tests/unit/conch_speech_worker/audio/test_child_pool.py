"""What a decoding child says, or does not say, as the worker reads it; its processes are in `integration/`."""

import asyncio

import pytest

from conch_contracts.messages.message import to_json
from conch_kit.errors import InvalidRequest
from conch_kit.frames import FrameTooLarge, pack
from conch_speech_worker.audio.child_messages import ChildFrame, FileRefusal
from conch_speech_worker.audio.child_pool import _MOST_FRAME_BYTES, DecodedSound

BROKEN = "takes too much memory or time, or breaks the decoder"


def sound_of(*frames: bytes, ended: bool = False, silence_s: float = 60.0) -> DecodedSound:
    wire = asyncio.StreamReader()
    wire.feed_data(b"".join(frames))
    if ended:
        wire.feed_eof()
    return DecodedSound(wire, silence_s)


async def test_samples_come_in_order_until_the_child_says_that_it_is_done() -> None:
    sound = sound_of(*(pack(ChildFrame.SAMPLES, data) for data in (b"aa", b"", b"bb")), pack(ChildFrame.END))
    assert [await sound.read() for _ in range(4)] == [b"aa", b"bb", b"", b""]


async def test_a_frame_that_comes_in_pieces_is_waited_for() -> None:
    whole = pack(ChildFrame.SAMPLES, b"aabb")
    wire = asyncio.StreamReader()
    wire.feed_data(whole[:5])
    reading = asyncio.create_task(DecodedSound(wire, 60.0).read())
    await asyncio.sleep(0)
    wire.feed_data(whole[5:])
    assert await reading == b"aabb"


async def test_a_refusal_is_passed_on_in_its_words() -> None:
    refusal = FileRefusal(code="audio_too_long", message="Too long.")
    with pytest.raises(InvalidRequest, match=r"^Too long\.$") as refused:
        await sound_of(pack(ChildFrame.REFUSAL, to_json(refusal))).read()
    assert (refused.value.param, refused.value.code) == ("file", "audio_too_long")


async def test_a_child_that_ends_before_its_file_has_broken_at_it() -> None:
    sound = sound_of(pack(ChildFrame.SAMPLES, b"aa"), ended=True)
    assert await sound.read() == b"aa"
    with pytest.raises(InvalidRequest, match=BROKEN):
        await sound.read()


async def test_a_child_that_falls_silent_is_not_waited_for() -> None:
    with pytest.raises(InvalidRequest, match=BROKEN):
        await asyncio.wait_for(sound_of(silence_s=0.01).read(), 30)


async def test_no_frame_of_a_child_is_read_that_is_larger_than_any_may_be() -> None:
    head = pack(ChildFrame.SAMPLES)[:-4] + (_MOST_FRAME_BYTES + 1).to_bytes(4, "big")
    with pytest.raises(FrameTooLarge):
        await sound_of(head).read()
