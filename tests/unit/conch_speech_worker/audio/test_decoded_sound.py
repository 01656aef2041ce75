"""What decoding children say, or do not say, as the worker reads it; their processes are in `integration/`."""

import asyncio
import errno
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from conch_contracts.messages.message import to_json
from conch_kit.errors import InvalidRequest, Unavailable
from conch_kit.frames import FrameTooLarge, pack
from conch_speech_worker.audio.child_messages import ChildFrame, FileRefusal
from conch_speech_worker.audio.decoded_sound import _MOST_FRAME_BYTES, FORK_SERVER_LOST, DecodedSound, DecodingChild

BROKEN = "takes too much memory or time, or breaks the decoder"


class Children:
    """Children that say what a test says, one after the other, and end as it says; one that does not end is silent.

    In the place of one that cannot be started stands why.
    """

    def __init__(self, *said: tuple[bytes, int | None] | Exception, works_s: float = 0.0) -> None:
        """They take so much processor time from one look at it to the next."""
        self._said = list(said)
        self._works_s, self._cpu_s = works_s, 0.0
        self.alive = 0

    @asynccontextmanager
    async def start(self) -> AsyncIterator[DecodingChild]:
        assert not self.alive
        said = self._said.pop(0)
        if isinstance(said, Exception):
            raise said
        self.alive += 1
        data, code = said
        wire = asyncio.StreamReader()
        wire.feed_data(data)
        if code is not None:
            wire.feed_eof()

        async def exit_code() -> int | None:
            return code

        yield DecodingChild(wire, exit_code, self._worked)
        self.alive -= 1

    def _worked(self) -> float:
        self._cpu_s += self._works_s
        return self._cpu_s


@asynccontextmanager
async def sound_of(*frames: bytes, ended: int | None = None, silence_s: float = 60.0) -> AsyncIterator[DecodedSound]:
    async with DecodedSound(Children((b"".join(frames), ended)).start, silence_s) as sound:
        yield sound


async def all_of(sound: DecodedSound) -> bytes:
    found = b""
    while samples := await sound.read():
        found += samples
    return found


def samples(*pieces: bytes) -> bytes:
    return b"".join(pack(ChildFrame.SAMPLES, piece) for piece in pieces)


WHOLE = samples(b"aabb", b"ccdd", b"eeff") + pack(ChildFrame.END)


async def test_samples_come_in_order_until_the_child_says_that_it_is_done() -> None:
    async with sound_of(samples(b"aa", b"", b"bb") + pack(ChildFrame.END)) as sound:
        assert [await sound.read() for _ in range(4)] == [b"aa", b"bb", b"", b""]


async def test_a_frame_that_comes_in_pieces_is_waited_for() -> None:
    whole = pack(ChildFrame.SAMPLES, b"aabb")
    wire = asyncio.StreamReader()
    wire.feed_data(whole[:5])

    @asynccontextmanager
    async def start() -> AsyncIterator[DecodingChild]:
        yield DecodingChild(wire, lambda: pytest.fail("it goes on"), lambda: 0.0)

    async with DecodedSound(start, 60.0) as sound:
        reading = asyncio.create_task(sound.read())
        await asyncio.sleep(0)
        wire.feed_data(whole[5:])
        assert await reading == b"aabb"


async def test_a_refusal_is_passed_on_in_its_words() -> None:
    refusal = FileRefusal(code="audio_too_long", message="Too long.")
    async with sound_of(pack(ChildFrame.REFUSAL, to_json(refusal))) as sound:
        with pytest.raises(InvalidRequest, match=r"^Too long\.$") as refused:
            await sound.read()
    assert (refused.value.param, refused.value.code) == ("file", "audio_too_long")


@pytest.mark.parametrize("code", [0, 1, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGXCPU])
async def test_a_child_that_its_file_ends_has_broken_at_it(code: int) -> None:
    async with sound_of(samples(b"aa"), ended=code) as sound:
        assert await sound.read() == b"aa"
        with pytest.raises(InvalidRequest, match=BROKEN) as refused:
            await sound.read()
    assert refused.value.code == "invalid_audio"


async def test_a_child_that_works_and_says_nothing_is_not_waited_for() -> None:
    async with DecodedSound(Children((b"", None), works_s=0.005).start, 0.01) as sound:
        with pytest.raises(InvalidRequest, match=BROKEN):
            await asyncio.wait_for(sound.read(), 30)


async def test_another_child_goes_on_where_one_is_held_up() -> None:
    children = Children((WHOLE[:20], None), (WHOLE, 0))
    async with DecodedSound(children.start, 0.01) as sound:
        assert await asyncio.wait_for(all_of(sound), 30) == b"aabbccddeeff"
    assert not children.alive


async def test_where_children_are_held_up_again_nobody_blames_the_file() -> None:
    async with DecodedSound(Children(*[(b"", None)] * 2).start, 0.01) as sound:
        with pytest.raises(Unavailable, match="held up from outside; send the file again") as refused:
            await asyncio.wait_for(sound.read(), 30)
    assert refused.value.retry_after_s


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGTERM, FORK_SERVER_LOST])
@pytest.mark.parametrize("said", [0, 1, 12, 13, 14, 20, 30, len(WHOLE) - 1])
async def test_another_child_goes_on_where_one_was_killed_and_no_sample_is_lost_or_doubled(
    code: int, said: int
) -> None:
    children = Children((WHOLE[:said], code), (WHOLE, 0))
    async with DecodedSound(children.start, 60.0) as sound:
        assert await all_of(sound) == b"aabbccddeeff"
    assert not children.alive


async def test_where_children_are_killed_again_nobody_blames_the_file() -> None:
    async with DecodedSound(Children(*[(WHOLE[:20], -signal.SIGKILL)] * 2).start, 60.0) as sound:
        assert await sound.read() == b"aabb"
        with pytest.raises(Unavailable, match="send the file again") as refused:
            await all_of(sound)
    assert refused.value.retry_after_s


@pytest.mark.parametrize("failure", [EOFError(), ConnectionRefusedError(), OSError(errno.EMFILE, "too many")])
async def test_another_child_is_started_where_one_cannot_be(failure: Exception) -> None:
    children = Children(failure, (WHOLE, 0))
    async with DecodedSound(children.start, 60.0) as sound:
        assert await all_of(sound) == b"aabbccddeeff"
    assert not children.alive
    with pytest.raises(Unavailable, match="cannot be started") as refused:
        async with DecodedSound(Children(failure, failure).start, 60.0):
            pass
    assert refused.value.retry_after_s
    async with DecodedSound(Children((WHOLE[:20], -signal.SIGKILL), failure).start, 60.0) as sound:
        with pytest.raises(Unavailable, match="cannot be started"):
            await all_of(sound)


async def test_no_frame_of_a_child_is_read_that_is_larger_than_any_may_be() -> None:
    head = pack(ChildFrame.SAMPLES)[:-4] + (_MOST_FRAME_BYTES + 1).to_bytes(4, "big")
    async with sound_of(head) as sound:
        with pytest.raises(FrameTooLarge):
            await sound.read()
