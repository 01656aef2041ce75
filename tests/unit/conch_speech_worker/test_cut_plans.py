"""Five hundred files, cut and heard at random: every form of an answer has the words that were said, each once.

A word is a square wave of 160 ms, whose height says which word it is, and 40 ms of silence. The engine hears that as
exactly as the stand-in `speech` hears tones, in a hundredth of the time; it ends early as often as it likes within
what is heard again, and then writes when its last word ended.
"""

import asyncio
import random

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.hearing import FileHearing
from conch_speech_worker.transcript.segments import HeardWindow
from testkit.builders.transcript_forms import in_every_form
from testkit.builders.transcriptions import FIRST_TIME, VOCABULARY, transcribe_request
from testkit.models.tone_speech import TONE_S, WORD_S, WORDS, said

PLANS, BLOCKS = 500, 10
LEAST_WORDS = 52
"""That the engine hears of a window: with the two times that its rest is heard again, all 150 that fit."""
PAUSES_S = (0, 0, 0, 0.1, 0.25, 0.5, 1.0, 3.0, 12.0)
_LOWEST, _STEP = 2000, 200
_SHORTEST = SAMPLE_RATE * 8 // 100
_COARSE = 16
"""Samples between two that are looked at."""
_SPOKEN = []
for _word in range(WORDS):
    _samples = np.zeros(round(WORD_S * SAMPLE_RATE), np.int16)
    _samples[: round(TONE_S * SAMPLE_RATE)] = _LOWEST + _STEP * _word
    _samples[1 : round(TONE_S * SAMPLE_RATE) : 2] *= -1
    _SPOKEN.append(_samples)


class CutFile:
    """A file of words between pauses, decoded into pieces of all lengths."""

    def __init__(self, chance: random.Random) -> None:
        self.words: list[int] = []
        parts, left = [], chance.randrange(140, 320)
        while left > 0:
            run = [chance.randrange(WORDS) for _ in range(chance.randint(1, min(left, 180)))]
            parts += [np.zeros(round(chance.choice(PAUSES_S) * SAMPLE_RATE), np.int16), *(_SPOKEN[one] for one in run)]
            self.words += run
            left -= len(run)
        self._data = np.concatenate(parts).tobytes()
        self._chance = chance
        self._at = 0

    async def read(self) -> bytes:
        size = 2 * self._chance.randrange(1, 200_000)
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece


class EarlyEngine:
    """Hears words by their height; ends after some of them, and segments where it likes."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def hear(self, samples, prompt) -> HeardWindow:
        loud = (samples[::_COARSE] != 0).astype(np.int8)
        edges = (np.flatnonzero(np.diff(loud, prepend=0, append=0)) * _COARSE).tolist()
        said = [each for each in zip(edges[::2], edges[1::2], strict=True) if each[1] - each[0] >= _SHORTEST]
        most, ids, ended = self._chance.randrange(LEAST_WORDS, 160), list[int](), 0
        for first, after in said[:most]:
            if not ids or self._chance.random() < 0.1:
                ids += [_time(ended), _time(first)] if ids else [_time(first)]
            ids.append((abs(int(samples[first])) - _LOWEST) // _STEP)
            ended = after
        if len(said) > most or self._chance.random() < 0.8:  # else it says that the last one goes on to the end
            ids += [_time(ended)] if ids else []
        await asyncio.sleep(0)
        return HeardWindow(tuple(ids), (-0.5,) * len(ids), -0.5, 0.0, 0.1, None)


def _time(sample: int) -> int:
    return FIRST_TIME + round(sample / SAMPLE_RATE / 0.02)


@pytest.mark.parametrize("block", range(BLOCKS))
async def test_no_cut_loses_or_doubles_a_word_in_any_form(block):
    for seed in range(block, PLANS, BLOCKS):
        chance = random.Random(seed)
        file = CutFile(chance)
        hearing = FileHearing(transcribe_request(), VOCABULARY, EarlyEngine(chance).hear)
        parts = [segments async for segments in hearing.segments(file)]
        texts = in_every_form(parts)
        assert texts == dict.fromkeys(texts, said(file.words)), f"plan {seed}"
