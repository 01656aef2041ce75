"""Continuous batching: which request is computed in which step, and what came out of it.

A step decodes one token for every running request and prefills a bounded number of prompt tokens in between, then
chooses all tokens in one pass. Where a prompt has a picture that was not seen lately, one such picture is looked at
instead of the prefilling. Requests beyond the slots wait first in, first out. Running requests occupy the first
rows of the decoder; behind them is at most one request whose prompt is only partly prefilled. When a request ends, the
last running one takes its row.

There are no threads and no clock here: `engine_thread` calls `step` again and again.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_contracts.dialects import tokens as tokens_dialect
from conch_runtime_cpu.engine.decoder import ShownFeatures
from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.vision import Features, SeenPictures
from conch_runtime_cpu.requests import GenerationRequest
from conch_runtime_cpu.sampling.logprobs import LogprobRows, log_probabilities
from conch_runtime_cpu.sampling.sampler import NO_TOKEN, Sampler, TokenLogprobs

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]

PREFILL_CHUNK = 128
"""Prompt tokens computed in one call. Fixed, so that a prompt's numbers never depend on what else runs."""
PREFILL_PER_STEP = 256
"""Prompt tokens computed between two decodings, which bounds how long running requests wait."""


class Decoder(Protocol):
    """The model: see `decoder.OnnxDecoder`."""

    slots: int
    vocabulary: int
    logits: Logits

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        """Append one token to each of the first rows and predict what follows."""

    def prefill(self, row: int, ids: Ids, start: int, shown: ShownFeatures | None = None) -> None:
        """Append ids to a row of `start` tokens and predict what follows the last."""

    def prefill_keeping_all(self, row: int, ids: Ids, start: int, shown: ShownFeatures | None = None) -> Logits:
        """Do the same and return all predictions."""

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row over another."""


class FinishReason(StrEnum):
    """Why a request ended."""

    STOP = tokens_dialect.FINISH_STOP
    LENGTH = tokens_dialect.FINISH_LENGTH
    CANCELLED = tokens_dialect.FINISH_CANCELLED


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """How a request ended."""

    reason: FinishReason
    stop_token: int = -1
    """The id that ended it, -1 when none did."""


@dataclass(frozen=True, slots=True)
class SequenceEvent:
    """What one step brought to one request."""

    key: RequestKey
    token: int | None = None
    logprobs: TokenLogprobs | None = None
    prompt: LogprobRows | None = None
    """The log probabilities of the prompt's ids but the first; before or with the first token."""
    finish: FinishedRequest | None = None
    error: str | None = None
    """Ends the request, instead of a finish."""


class Scheduler:
    """Runs requests on a decoder, many at once."""

    def __init__(self, decoder: Decoder, seen: SeenPictures | None = None) -> None:
        """Run on a decoder; only requests without pictures may come where nothing sees them."""
        self._decoder = decoder
        self._seen = seen
        self._sampler = Sampler(decoder.slots, decoder.vocabulary)
        self._free_slots = list(range(decoder.slots))
        self._waiting: deque[_Sequence] = deque()
        self._prefilling: _Sequence | None = None
        self._running: list[_Sequence] = []
        self._cancelled: set[RequestKey] = set()

    @property
    def idle(self) -> bool:
        """Return whether a step would do nothing."""
        return not (self._running or self._prefilling or self._waiting)

    @property
    def has_prompts(self) -> bool:
        """Return whether a step could prefill something."""
        return self._prefilling is not None or (bool(self._waiting) and len(self._running) < self._decoder.slots)

    def add(self, key: RequestKey, request: GenerationRequest) -> None:
        """Queue a request."""
        self._waiting.append(_Sequence(key, request))

    def cancel(self, key: RequestKey) -> None:
        """End a request at the next step; one that has ended already is no error."""
        self._cancelled.add(key)

    def step(self, *, decoding: bool = True) -> list[SequenceEvent]:
        """Compute once and return what came out; without decoding only prompts make progress."""
        events = self._drop_cancelled() if self._cancelled else []
        stepped = list(self._running) if decoding else []
        if stepped:
            self._decoder.decode([one.last for one in stepped], [one.advance() for one in stepped])
        rows = list(range(len(stepped)))
        for sequence in self._prefill(events):
            rows.append(len(self._running))
            self._running.append(sequence)
            stepped.append(sequence)
        if stepped:
            events += self._choose(stepped, rows)
            self._compact()
        return events

    def _prefill(self, events: list[SequenceEvent]) -> "list[_Sequence]":
        """Prefill prompts up to the step's limit; return those that are complete and want a token."""
        complete: list[_Sequence] = []
        left = PREFILL_PER_STEP
        while left > 0:
            row = len(self._running) + len(complete)
            sequence = self._prefilling or self._next(row)
            if sequence is None:
                break
            self._prefilling = sequence
            if self._seen is not None and not sequence.look(self._seen):
                break
            left -= sequence.prefill(self._decoder, row)
            if not sequence.prefilled:
                continue
            self._prefilling = None
            if sequence.prompt_logprobs is not None:
                events.append(SequenceEvent(sequence.key, prompt=sequence.prompt_logprobs))
            if sequence.request.sampling.max_tokens:
                complete.append(sequence)
            else:
                events.append(self._end(sequence, FinishedRequest(FinishReason.LENGTH)))
        return complete

    def _next(self, row: int) -> "_Sequence | None":
        if not self._waiting or row >= self._decoder.slots:
            return None
        sequence = self._waiting.popleft()
        sequence.slot = self._free_slots.pop()
        self._sampler.admit(sequence.slot, sequence.request)
        return sequence

    def _choose(self, stepped: "list[_Sequence]", rows: list[int]) -> list[SequenceEvent]:
        logits = self._decoder.logits
        batch = logits[: len(rows)] if rows[-1] == len(rows) - 1 else logits[rows]
        choice = self._sampler.choose(batch, np.array([one.slot for one in stepped], np.int64))
        events = []
        for index, (sequence, token) in enumerate(zip(stepped, choice.tokens, strict=True)):
            if token == NO_TOKEN:
                events.append(sequence.give_up())
                continue
            finish = sequence.accept(token)
            events.append(SequenceEvent(sequence.key, token, choice.logprobs.get(index), finish=finish))
        return events

    def _drop_cancelled(self) -> list[SequenceEvent]:
        """End what was cancelled, wherever it is."""
        cancelled, self._cancelled = self._cancelled, set()
        finish = FinishedRequest(FinishReason.CANCELLED)
        dropped = [one for one in self._waiting if one.key in cancelled]
        if dropped:
            self._waiting = deque(one for one in self._waiting if one.key not in cancelled)
        events = [SequenceEvent(one.key, finish=finish) for one in dropped]
        if self._prefilling is not None and self._prefilling.key in cancelled:
            events.append(self._end(self._prefilling, finish))
            self._prefilling = None
        for sequence in self._running:
            if sequence.key in cancelled:
                sequence.ended = True
                events.append(SequenceEvent(sequence.key, finish=finish))
        self._compact()
        return events

    def _compact(self) -> None:
        """Give the rows of ended requests to the last ones, and keep the half-prefilled one right behind them."""
        running = self._running
        before = len(running)
        for row in range(before - 1, -1, -1):
            if running[row].ended:
                self._release(running[row])
                last = running.pop()
                if row < len(running):
                    self._decoder.move(len(running), row, last.length)
                    running[row] = last
        if self._prefilling is not None and len(running) < before:
            self._decoder.move(before, len(running), self._prefilling.length)

    def _end(self, sequence: "_Sequence", finish: FinishedRequest) -> SequenceEvent:
        self._release(sequence)
        return SequenceEvent(sequence.key, finish=finish)

    def _release(self, sequence: "_Sequence") -> None:
        self._sampler.release(sequence.slot)
        self._free_slots.append(sequence.slot)


class _Sequence:
    """One request, while it waits or runs."""

    __slots__ = (
        "_endings",
        "_features",
        "_found",
        "_limit",
        "_made",
        "_mask",
        "_shown",
        "ended",
        "key",
        "last",
        "length",
        "request",
        "slot",
    )

    def __init__(self, key: RequestKey, request: GenerationRequest) -> None:
        sampling = request.sampling
        self.key = key
        self.request = request
        self.slot = -1
        self.length = 0
        """Tokens in the decoder's row."""
        self.last = -1
        self.ended = False
        self._made = 0
        self._limit = sampling.max_tokens
        self._mask = request.mask
        self._endings = frozenset(sampling.stop_token_ids)
        if not sampling.ignore_eos:
            self._endings |= frozenset(sampling.eos_token_ids)
        self._found: list[LogprobRows] = []
        self._features: list[Features] = []
        self._shown: ShownFeatures | None = None

    @property
    def prefilled(self) -> bool:
        return self.length >= len(self.request.prompt)

    @property
    def prompt_logprobs(self) -> LogprobRows | None:
        """Return what was asked for about the prompt."""
        if not self._found:
            return None
        return LogprobRows(
            np.concatenate([rows.chosen for rows in self._found]),
            np.concatenate([rows.top_ids for rows in self._found]),
            np.concatenate([rows.top_logprobs for rows in self._found]),
            np.concatenate([rows.ranks for rows in self._found]),
        )

    def look(self, seen: SeenPictures) -> bool:
        """Gather the features of the prompt's pictures; return False when one was computed, which fills a step."""
        pictures = self.request.pictures
        while len(self._features) < len(pictures):
            picture = pictures[len(self._features)]
            found = seen.find(picture)
            self._features.append(seen.look(picture) if found is None else found)
            if len(self._features) == len(pictures):
                starts = [one.start for one in pictures]
                self._shown = ShownFeatures.among(len(self.request.prompt), starts, self._features)
            if found is None:
                return False
        return True

    def prefill(self, decoder: Decoder, row: int) -> int:
        """Compute the next chunk of the prompt and return its size."""
        start = self.length
        chunk = self.request.prompt[start : start + PREFILL_CHUNK]
        shown = None if self._shown is None else self._shown.part(start, start + len(chunk))
        alternatives = self.request.sampling.prompt_logprobs
        if alternatives is None:
            decoder.prefill(row, chunk, start, shown)
        else:
            predicted = decoder.prefill_keeping_all(row, chunk, start, shown)
            following = self.request.prompt[start + 1 : start + 1 + len(chunk)]
            self._found.append(log_probabilities(predicted[: len(following)], following, alternatives))
        self.length += len(chunk)
        if self.prefilled and self.request.pictures:  # a long answer takes no memory for its pictures
            self.request = replace(self.request, pictures=())
            self._shown = None
            self._features.clear()
        return len(chunk)

    def advance(self) -> int:
        """Count the token that a decoding appends, and return the row's new length."""
        self.length += 1
        return self.length

    def accept(self, token: int) -> FinishedRequest | None:
        """Take the chosen token; return how the request ends, if it does."""
        self.last = token
        self._made += 1
        if token in self._endings:
            self.ended = True
            return FinishedRequest(FinishReason.STOP, token)
        if self._mask is not None and self._mask.finished:
            self.ended = True
            return FinishedRequest(FinishReason.STOP)
        if self._made >= self._limit:
            self.ended = True
            return FinishedRequest(FinishReason.LENGTH)
        return None

    def give_up(self) -> SequenceEvent:
        """End the request where no token is allowed: with a stop if the answer is complete, else with an error."""
        self.ended = True
        if self._mask is not None and self._mask.complete:
            return SequenceEvent(self.key, finish=FinishedRequest(FinishReason.STOP))
        if self._mask is None:
            return SequenceEvent(
                self.key, error=f"{INVALID_PREFIX}allowed_token_ids: the other parameters allow none of them"
            )
        reason = self._mask.fault or "the other parameters allow no token that the grammar allows"
        return SequenceEvent(self.key, error=f"{INVALID_PREFIX}grammar: {reason}")
