"""Which window of sound is computed in which step, and what came out of it.

A step decodes one id for every running window, or for most; now and then it encodes the sound of a waiting one, which
takes as long as many decodings, so between two of these the running ones go on. Windows beyond the slots wait first in,
first out. Running windows occupy the first rows of the model; when one ends, the last takes its row. What a window's
sound looks like stays in its row while one temperature after the other is tried.

There are no threads and no clock here: `engine_thread` calls `step` again and again.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.scheduler import FinishReason
from conch_runtime_cpu.sampling.sampler import NO_TOKEN, Sampler
from conch_runtime_cpu.speech.id_rules import forbid
from conch_runtime_cpu.speech.spectrogram import HOP
from conch_runtime_cpu.speech.tries import Verdict, judge
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary
from conch_runtime_cpu.speech.window_requests import WindowRequest
from conch_runtime_cpu.speech.word_times import boundary_times, times_of_answer

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]

DECODINGS_BETWEEN_ENCODINGS = 16
"""While windows run. An encoding takes as long as a hundred decodings or so, and yet the waiting windows come soon:
eight are decoded in the time of three."""


class HearingModel(Protocol):
    """The model: see `whisper_model.WhisperModel`."""

    slots: int
    vocabulary: int
    context: int
    logits: Floats

    def encode(self, row: int, features: Floats) -> None:
        """Let a row's decoder look at this sound."""

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        """Append one id to each of the first rows and predict what follows."""

    def prefill(self, row: int, ids: Ids, keep: Sequence[int]) -> Floats:
        """Make these ids all that a row has read, and return what follows the ones at these places."""

    def attention(self, row: int, ids: Ids, heads: Sequence[tuple[int, int]], frames: int) -> Floats:
        """Do the same, and return how each id looks at the sound."""

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row over another."""


class Hearing(Protocol):
    """Turns sound into what the model hears: see `spectrogram.Spectrogram`."""

    def of(self, pcm: NDArray[np.int16]) -> Floats:
        """Return the features of a window."""


@dataclass(frozen=True, slots=True)
class HeardSound:
    """What is known of a window before its text."""

    language_id: int
    """Found or given; -1 where none is."""
    no_speech_prob: float
    """NaN where nobody can say."""


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """How a window ended."""

    reason: FinishReason
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    avg_logprob: float = math.nan
    temperature: float = math.nan
    times: Floats | None = None


@dataclass(frozen=True, slots=True)
class WindowEvent:
    """What one step brought to one window."""

    key: RequestKey
    heard: HeardSound | None = None
    answer: SpokenAnswer | None = None
    error: str | None = None
    """Ends the request, instead of an answer."""


class SpeechScheduler:
    """Runs windows on a model, many at once."""

    def __init__(
        self, model: HearingModel, hearing: Hearing, vocabulary: SpeechVocabulary, *, filter_width: int
    ) -> None:
        self._model = model
        self._hearing = hearing
        self._vocabulary = vocabulary
        self._filter_width = filter_width
        self._sampler = Sampler(model.slots, model.vocabulary)
        self._free_slots = list(range(model.slots))
        self._waiting: deque[_Window] = deque()
        self._running: list[_Window] = []
        self._cancelled: set[RequestKey] = set()
        self._decodings = 0
        """Since the last encoding."""

    @property
    def idle(self) -> bool:
        """Return whether a step would do nothing."""
        return not (self._running or self._waiting)

    @property
    def has_prompts(self) -> bool:
        """Return whether a step could encode something."""
        return bool(self._waiting) and len(self._running) < self._model.slots

    def add(self, key: RequestKey, request: WindowRequest) -> None:
        """Queue a window."""
        self._waiting.append(_Window(key, request))

    def cancel(self, key: RequestKey) -> None:
        """End a window at the next step; one that has ended already is no error."""
        self._cancelled.add(key)

    def step(self, *, decoding: bool = True) -> list[WindowEvent]:
        """Compute once and return what came out; without decoding only waiting windows make progress."""
        events = self._drop_cancelled() if self._cancelled else []
        stepped = list(self._running) if decoding else []
        if stepped:
            self._model.decode([one.made[-1] for one in stepped], [one.advance() for one in stepped])
            self._decodings += 1
        choosing = list(enumerate(stepped))
        if self.has_prompts and (not stepped or self._decodings >= DECODINGS_BETWEEN_ENCODINGS):
            row = len(self._running)
            window = self._waiting.popleft()
            self._running.append(window)
            choosing.append((row, window))
            events.append(self._begin(row, window))
            self._decodings = 0
        while choosing:
            choosing = self._choose(choosing, events)
        self._compact()
        return events

    def _begin(self, row: int, window: "_Window") -> WindowEvent:
        """Encode a window's sound, find its language, and read its prompt."""
        model, vocabulary, request = self._model, self._vocabulary, window.request
        model.encode(row, self._hearing.of(request.pcm))
        if request.finds_language:
            (logits,) = model.prefill(row, np.array([vocabulary.start_id], np.int64), [0])
            candidates = sorted(request.parameters.languages or vocabulary.languages)
            window.prompt[request.start + 1] = candidates[int(logits[candidates].argmax())]
        kept = model.prefill(row, window.prompt, [request.start, len(window.prompt) - 1])
        model.logits[row] = kept[1]
        if len(request.parameters.temperatures) > 1:
            window.after_prompt = kept[1]
        if vocabulary.no_speech_id is not None:
            window.no_speech_prob = _probability(kept[0], vocabulary.no_speech_id)
        window.slot = self._free_slots.pop()
        self._begin_try(window)
        language = window.prompt[request.start + 1 : request.start + 2].tolist()
        language_id = language[0] if language and language[0] in vocabulary.languages else -1
        return WindowEvent(window.key, heard=HeardSound(language_id, window.no_speech_prob))

    def _begin_try(self, window: "_Window") -> None:
        window.begin_try()
        self._sampler.admit(window.slot, window.request.try_at(window.tries - 1, window.prompt))

    def _choose(self, choosing: "list[tuple[int, _Window]]", events: list[WindowEvent]) -> "list[tuple[int, _Window]]":
        """Choose an id for each of these rows; return those whose next try begins at once."""
        logits = self._model.logits[[row for row, _ in choosing]]
        for own, (_, window) in zip(logits, choosing, strict=True):
            forbid(own, window.made, self._vocabulary, timed=window.request.timed)
        choice = self._sampler.choose(logits, np.array([window.slot for _, window in choosing], np.int64))
        again = []
        for index, ((row, window), token) in enumerate(zip(choosing, choice.tokens, strict=True)):
            if token == NO_TOKEN:
                window.ended = True
                events.append(WindowEvent(window.key, error="The rules of the model leave no id that may come next."))
                continue
            window.made.append(token)
            window.logprobs.append(choice.logprobs[index].chosen)
            if not window.complete(self._vocabulary):
                continue
            answer = self._answer(row, window)
            if answer is None:
                self._model.logits[row] = window.after_prompt
                self._sampler.release(window.slot)
                self._begin_try(window)
                again.append((row, window))
            else:
                window.ended = True
                events.append(WindowEvent(window.key, answer=answer))
        return again

    def _answer(self, row: int, window: "_Window") -> SpokenAnswer | None:
        """Return how a window ends with this try; None where the next temperature is to be tried."""
        parameters, vocabulary = window.request.parameters, self._vocabulary
        avg_logprob = sum(window.logprobs) / len(window.logprobs)
        verdict = judge(window.made, avg_logprob, window.no_speech_prob, vocabulary.size, parameters)
        if verdict is Verdict.REJECTED and window.tries < len(parameters.temperatures):
            return None
        stopped = window.made[-1] in vocabulary.ending_ids
        made = [] if verdict is Verdict.SILENT else window.made[:-1] if stopped else window.made
        return SpokenAnswer(
            reason=FinishReason.STOP if stopped else FinishReason.LENGTH,
            tokens=tuple(made),
            logprobs=tuple(window.logprobs[: len(made)]),
            avg_logprob=avg_logprob,
            temperature=parameters.temperatures[window.tries - 1],
            times=self._times(row, window, made) if parameters.word_times else None,
        )

    def _times(self, row: int, window: "_Window", made: list[int]) -> Floats:
        vocabulary = self._vocabulary
        text = [token for token in made if token < vocabulary.first_time_id]
        if not text:
            return np.zeros(len(made) + 1, np.float32)
        lead = window.prompt[window.request.start :].tolist()
        if window.request.timed:
            lead.append(vocabulary.no_times_id)
        ids = np.array([*lead, *text, vocabulary.ending_ids[0]][: self._model.context], np.int64)
        frames = math.ceil(len(window.request.pcm) / (2 * HOP))
        scores = self._model.attention(row, ids, vocabulary.alignment_heads, frames)
        boundaries = boundary_times(scores, len(lead), len(text), self._filter_width)
        return times_of_answer(made, vocabulary.first_time_id, boundaries)

    def _drop_cancelled(self) -> list[WindowEvent]:
        """End what was cancelled, wherever it is."""
        cancelled, self._cancelled = self._cancelled, set()
        answer = SpokenAnswer(FinishReason.CANCELLED)
        dropped = [one for one in self._waiting if one.key in cancelled]
        if dropped:
            self._waiting = deque(one for one in self._waiting if one.key not in cancelled)
        for window in self._running:
            if window.key in cancelled:
                window.ended = True
                dropped.append(window)
        self._compact()
        return [WindowEvent(one.key, answer=answer) for one in dropped]

    def _compact(self) -> None:
        """Give the rows of ended windows to the last ones."""
        running = self._running
        for row in range(len(running) - 1, -1, -1):
            if running[row].ended:
                self._sampler.release(running[row].slot)
                self._free_slots.append(running[row].slot)
                last = running.pop()
                if row < len(running):
                    self._model.move(len(running), row, last.length)
                    running[row] = last


class _Window:
    """One request, while it waits or runs."""

    __slots__ = (
        "after_prompt",
        "ended",
        "key",
        "length",
        "logprobs",
        "made",
        "no_speech_prob",
        "prompt",
        "request",
        "slot",
        "tries",
    )

    def __init__(self, key: RequestKey, request: WindowRequest) -> None:
        self.key = key
        self.request = request
        self.prompt: Ids = request.prompt.copy()
        """As asked, with the language that was found."""
        self.slot = -1
        self.length = 0
        """Ids in the model's row."""
        self.tries = 0
        self.made: list[int] = []
        """By this try, the ending id among them."""
        self.logprobs: list[float] = []
        self.no_speech_prob = math.nan
        self.after_prompt: Floats | None = None
        """What the model predicts behind the prompt, for further tries."""
        self.ended = False

    def begin_try(self) -> None:
        """Forget what was made of the sound so far."""
        self.tries += 1
        self.length = len(self.prompt)
        self.made, self.logprobs = [], []

    def advance(self) -> int:
        """Count the id that a decoding appends, and return the row's new length."""
        self.length += 1
        return self.length

    def complete(self, vocabulary: SpeechVocabulary) -> bool:
        """Return whether this try makes no further id."""
        return self.made[-1] in vocabulary.ending_ids or len(self.made) >= self.request.parameters.max_tokens


def _probability(logits: Floats, token: int) -> float:
    weights = np.exp(logits - logits.max())
    return float(weights[token] / weights.sum())
