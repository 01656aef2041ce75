"""Has espeak-ng say phrases, at 16 kHz, without the silence around them."""

import io
import subprocess
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from models.tiny_whisper.phrases import Phrase, draw_phrase

RATE = 16_000
_LOUD = 0.005
_BEFORE, _AFTER = 400, 800
"""Samples that are kept around what is loud."""
_LONGEST = 4 * RATE
_VOICES = {"en": ("en-us", "en-us", "en-gb"), "zh": ("cmn",)}
_SPEEDS, _PITCHES = (130, 145, 160, 160, 175), (40, 50, 50, 60)

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Voice:
    """How something is said: espeak-ng's voice, words a minute, and pitch from 0 to 99."""

    name: str
    speed: int = 160
    pitch: int = 50


@dataclass(frozen=True, slots=True)
class Utterance:
    """A phrase and its sound."""

    phrase: Phrase
    samples: Samples


def draw_utterances(random: Random, count: int) -> Iterator[Utterance]:
    """Yield so many phrases in voices of their languages."""
    for _ in range(count):
        phrase = draw_phrase(random)
        voice = Voice(random.choice(_VOICES[phrase.language]), random.choice(_SPEEDS), random.choice(_PITCHES))
        yield Utterance(phrase, say(phrase, voice))


def say(phrase: Phrase, voice: Voice) -> Samples:
    """Return the samples, in [-1, 1]."""
    command = ["espeak-ng", "-v", voice.name, "-s", str(voice.speed), "-p", str(voice.pitch), "--stdout", phrase.spelt]
    made = subprocess.run(command, check=True, capture_output=True).stdout
    with wave.open(io.BytesIO(made)) as file:  # its header tells no length, for it is written before the sound is made
        rate, frames = file.getframerate(), file.readframes(len(made))
    sound = np.frombuffer(frames[: len(frames) // 2 * 2], "<i2").astype(np.float32) / 32768
    smooth = np.convolve(sound, np.array([0.25, 0.5, 0.25], np.float32), "same")
    places = np.arange(len(smooth) * RATE // rate) * rate / RATE
    heard = np.interp(places, np.arange(len(smooth)), smooth).astype(np.float32)
    loud = np.flatnonzero(np.abs(heard) > _LOUD)
    return heard[max(0, loud[0] - _BEFORE) : loud[-1] + _AFTER][:_LONGEST]


def keep(utterances: Iterator[Utterance], path: Path) -> None:
    """Write utterances to a file."""
    made = list(utterances)
    np.savez(
        path,
        samples=np.concatenate([each.samples for each in made]),
        lengths=[len(each.samples) for each in made],
        phrases=[[each.phrase.language, each.phrase.text, each.phrase.translation] for each in made],
    )


def read_kept(path: Path) -> list[Utterance]:
    """Read what was written."""
    with np.load(path) as file:
        ends = np.cumsum(file["lengths"])
        parts = np.split(file["samples"], ends[:-1])
        phrases = [Phrase(*map(str, each)) for each in file["phrases"]]
    return [Utterance(phrase, part) for phrase, part in zip(phrases, parts, strict=True)]
