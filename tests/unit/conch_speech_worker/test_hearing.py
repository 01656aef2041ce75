"""The flow of windows, with an engine of the test's own that hears tones by their place."""

import asyncio
import random

import numpy as np
import pytest

from conch_kit.triton.errors import EngineLost
from conch_speech_worker.hearing import MOST_AT_ONCE, FileHearing
from conch_speech_worker.transcript.segments import HeardWindow, segments_of
from testkit.builders.transcript_forms import in_every_form
from testkit.builders.transcriptions import FIRST_TIME, VOCABULARY, transcribe_request
from testkit.models.tone_speech import silence, spoken

ENGLISH = VOCABULARY.languages["en"]


class Decoded:
    """The sound of a file, in pieces."""

    def __init__(self, *parts) -> None:
        data = (np.concatenate(parts) * 32_767).astype("<i2").tobytes()
        self._pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


class Engine:
    """Says of each window how many came before it, and notes how many it hears at once."""

    def __init__(self) -> None:
        self.prompts: list[tuple[int, ...]] = []
        self.now = self.most = 0
        self.fails_at: int | None = None

    async def hear(self, samples, prompt) -> HeardWindow:
        number = len(self.prompts)
        self.prompts.append(prompt)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.001 * (10 - number % 10))  # later ones are quicker
        finally:
            self.now -= 1
        if number == self.fails_at:
            raise EngineLost("gone")
        ids = (FIRST_TIME, number, FIRST_TIME + len(samples) // 320)
        return HeardWindow(ids, (-0.1,) * 3, -0.1, 0.0, None, ENGLISH)


async def texts(hearing: FileHearing, *parts) -> list[str]:
    return [one.text async for segments in hearing.segments(Decoded(*parts)) for one in segments]


async def test_windows_are_heard_side_by_side_and_written_in_order():
    engine = Engine()
    hearing = FileHearing(transcribe_request(), VOCABULARY, engine.hear)
    assert await texts(hearing, spoken([1] * 2000)) == [f" w{number:02}" for number in range(14)]
    assert engine.most == MOST_AT_ONCE
    assert hearing.counts.usage().audio_s == pytest.approx(400)


async def test_the_first_window_is_heard_alone_where_the_language_is_to_be_found():
    engine = Engine()
    hearing = FileHearing(transcribe_request(language=None), VOCABULARY, engine.hear)
    await texts(hearing, silence(35), spoken([1] * 400))
    assert hearing.language == "en"
    assert [prompt[1] for prompt in engine.prompts] == [-1, *[ENGLISH] * (len(engine.prompts) - 1)]


async def test_an_engine_that_fails_ends_all_windows():
    engine = Engine()
    engine.fails_at = 2
    with pytest.raises(EngineLost):
        await texts(FileHearing(transcribe_request(), VOCABULARY, engine.hear), spoken([1] * 2000))
    assert engine.now == 0


def plan(chance: random.Random) -> list[HeardWindow]:
    """Return windows as an engine may answer them, with and without ends, some of them empty."""
    windows = []
    for _ in range(chance.randrange(1, 6)):
        ids: list[int] = []
        time = 0
        for _ in range(chance.randrange(4)):
            time += chance.randrange(200)
            ids.append(FIRST_TIME + time)
            ids += [chance.randrange(40) for _ in range(chance.randrange(6))]
            time += chance.randrange(1, 150)
            if chance.random() < 0.8:
                ids.append(FIRST_TIME + time)
        windows.append(HeardWindow(tuple(ids), (-0.5,) * len(ids), -0.5, 0.0, 0.1, None))
    return windows


@pytest.mark.parametrize("block", range(5))
def test_the_text_is_the_same_in_all_forms_and_deltas(block):
    for seed in range(block * 100, block * 100 + 100):
        parts = [
            segments_of(window, VOCABULARY, start_s=at * 28.0, length_s=28.0)
            for at, window in enumerate(plan(random.Random(seed)))
        ]
        texts = in_every_form(parts)
        assert len(set(texts.values())) == 1, f"plan {seed}: {texts}"
