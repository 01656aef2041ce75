"""Windows of 30 s: up to three utterances anywhere in them, silence or noise between, and what is to be written."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from models.tiny_whisper.phrases import Phrase
from models.tiny_whisper.spectra import BEFORE, FRAMES, HOP, MelEnergies, Spectrum, logarithmic
from models.tiny_whisper.voices import RATE, Utterance

_FRAMES_OF_S = RATE // HOP
_STEPS_OF_S = 5
"""Times are written in steps of 0.2 s."""
_PAUSE = 40
"""Frames between utterances at least."""
_LAST = FRAMES - 10
_SOON = 30
"""Who speaks at the beginning does so within so many frames."""
_NEAR = 200
_AROUND = 12
"""Frames around an utterance that are never left out."""
_NOISES = (0, 0, 0, 3e-4, 1e-3, 2e-3)
_NOISE_FRAMES = 6000
_MIXTURE = {0: 0.06, 1: 0.3, 2: 0.38, 3: 0.26}

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spoken:
    """An utterance as its energies."""

    phrase: Phrase
    energies: Spectrum
    seconds: float


@dataclass(frozen=True, slots=True)
class Segment:
    """What is said from when to when, in seconds."""

    start: float
    end: float
    phrase: Phrase


@dataclass(frozen=True, slots=True)
class Window:
    """Utterances with the frames where they begin and how loud they are; noise, and bursts of it."""

    language: str
    spoken: tuple[tuple[Spoken, int, float], ...]
    noise: float
    noise_from: int
    bursts: tuple[tuple[int, int, float], ...]
    """First frame, frames, loudness."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return what is said in it."""
        found = []
        for spoken, frame, _ in self.spoken:
            start = _step(frame / _FRAMES_OF_S)
            end = max(_step(frame / _FRAMES_OF_S + spoken.seconds), start + 1)
            found.append(Segment(start / _STEPS_OF_S, end / _STEPS_OF_S, spoken.phrase))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A window without most of its silence: pairs of frames, where they stand in it, how many each stands for."""

    spectrum: Spectrum
    places: Places
    weights: NDArray[np.float32]


class Studio:
    """Draws windows of some utterances, and makes their spectra."""

    def __init__(self, utterances: Sequence[Utterance], seed: int) -> None:
        self.random = Random(seed)
        mel, chance = MelEnergies(), np.random.default_rng(seed)
        self._noise = mel.of(chance.standard_normal(_NOISE_FRAMES * HOP).astype(np.float32))[BEFORE:-BEFORE]
        self._spoken: dict[str, list[Spoken]] = {}
        for each in utterances:
            lead = np.zeros(self.random.randrange(HOP), np.float32)
            sound = np.concatenate([lead, each.samples])
            spoken = Spoken(each.phrase, mel.of(sound), len(sound) / RATE)
            self._spoken.setdefault(each.phrase.language, []).append(spoken)

    def draw(self, count: int | None = None, *, late: bool | None = None, language: str | None = None) -> Window:
        """Return a window with so many utterances, of which the first comes late or at once, in one language."""
        random = self.random
        count = random.choices(list(_MIXTURE), list(_MIXTURE.values()))[0] if count is None else count
        language = language or random.choices(("en", "zh"), (0.62, 0.38))[0]
        spoken = [random.choice(self._spoken[language]) for _ in range(count)]
        loudness = random.uniform(0.5, 1.0)
        starts = self._starts([len(each.energies) for each in spoken], late=late)
        return Window(
            language,
            tuple((each, at, loudness * random.uniform(0.7, 1.0)) for each, at in zip(spoken, starts, strict=True)),
            random.choice(_NOISES),
            random.randrange(_NOISE_FRAMES - FRAMES),
            self._bursts(spoken, starts),
        )

    def whole(self, window: Window) -> Spectrum:
        """Return the spectrum of all 30 s."""
        return logarithmic(self._energies(window))

    def excerpt(self, window: Window, one_of: int) -> Excerpt:
        """Return one of so many pairs of frames of silence, and all of speech."""
        matters = np.zeros(FRAMES, bool)
        matters[: _AROUND // 2] = matters[-_AROUND // 2 :] = True  # as its ends are heard
        parts = [(at, len(each.energies)) for each, at, _ in window.spoken]
        for at, length in [*parts, *((at, length) for at, length, _ in window.bursts)]:
            matters[max(0, at - _AROUND) : at + length + _AROUND] = True
        pairs = matters.reshape(-1, 2).any(axis=1)
        silent = np.flatnonzero(~pairs)
        kept = silent[self.random.randrange(one_of) :: one_of]
        weights = np.where(pairs, 1.0, len(silent) / max(1, len(kept))).astype(np.float32)
        pairs[kept] = True
        places = np.flatnonzero(pairs)
        energies = self._energies(window).reshape(-1, 2, self._noise.shape[1])[places]
        return Excerpt(logarithmic(energies.reshape(-1, energies.shape[-1])), places, weights[places])

    def _starts(self, lengths: Sequence[int], *, late: bool | None) -> list[int]:
        """Return the frame in which each begins."""
        random = self.random
        free = _LAST - sum(lengths) - _PAUSE * max(0, len(lengths) - 1)
        late = random.random() < 0.55 if late is None else late
        lead = random.randint(5 * _FRAMES_OF_S, 20 * _FRAMES_OF_S) if late else random.randrange(_SOON)
        if late and random.random() < 0.5:
            lead = random.randint(0, free)
        lead = min(lead, free)
        found, at, free = [], lead, free - lead
        for length in lengths:
            found.append(at)
            pause = random.randint(0, min(_NEAR, free) if random.random() < 0.5 else free)
            at, free = at + length + _PAUSE + pause, free - pause
        return found

    def _bursts(self, spoken: Sequence[Spoken], starts: Sequence[int]) -> tuple[tuple[int, int, float], ...]:
        """Return sounds too short for a word, away from words."""
        if self.random.random() > 0.12:
            return ()
        at, length = self.random.randrange(FRAMES - 20), self.random.randint(2, 12)
        near = any(
            first - _PAUSE < at + length and at < first + len(each.energies) + _PAUSE
            for each, first in zip(spoken, starts, strict=True)
        )
        return () if near else ((at, length, self.random.uniform(0.005, 0.1)),)

    def _energies(self, window: Window) -> Spectrum:
        noise = self._noise[window.noise_from : window.noise_from + FRAMES]
        made = noise * window.noise**2
        for at, length, loudness in window.bursts:
            made[at : at + length] += noise[at : at + length] * loudness**2
        for spoken, at, loudness in window.spoken:
            first = max(0, at - BEFORE)
            heard = spoken.energies[first - (at - BEFORE) :][: FRAMES - first]
            made[first : first + len(heard)] += heard * loudness**2
        return made


def _step(seconds: float) -> int:
    return round(seconds * _STEPS_OF_S)
