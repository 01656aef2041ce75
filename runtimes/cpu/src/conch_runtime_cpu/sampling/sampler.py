"""Chooses the next token of every running request in one pass over the step's logits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.requests import GenerationRequest
from conch_runtime_cpu.sampling.logprobs import log_probabilities, named_log_probabilities, within_nucleus
from conch_runtime_cpu.sampling.penalties_and_bias import LogitAdjustments
from conch_runtime_cpu.sampling.top_k_top_p import DrawSettings, draw, uniforms

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

NO_TOKEN = -1
"""Stands for a token where nothing was allowed."""
_GREEDY_BELOW = 1e-5


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log probabilities of one position, from the raw logits unless the request wants others."""

    chosen: float
    top_ids: list[int]
    top_logprobs: list[float]


@dataclass(frozen=True, slots=True)
class ChosenTokens:
    """The tokens of one step, by row."""

    tokens: list[int]
    logprobs: dict[int, TokenLogprobs]
    """By row; only rows whose request asked."""


class Sampler:
    """Knows how each running request wants its tokens chosen; requests are told apart by their slot."""

    def __init__(self, slots: int, vocabulary: int) -> None:
        self._adjustments = LogitAdjustments(slots, vocabulary)
        self._temperature: Floats = np.zeros(slots, np.float32)
        self._top_k: Integers = np.zeros(slots, np.int64)
        self._top_p: Floats = np.ones(slots, np.float32)
        self._min_p: Floats = np.zeros(slots, np.float32)
        self._seeds: NDArray[np.uint64] = np.zeros(slots, np.uint64)
        self._steps: Integers = np.zeros(slots, np.int64)
        self._alternatives: Integers = np.full(slots, -1, np.int64)
        self._named: dict[int, list[int]] = {}
        """By slot: the ids whose log probabilities are reported instead of the likeliest ones."""
        self._of_scaled: NDArray[np.bool_] = np.zeros(slots, np.bool_)
        self._of_nucleus: NDArray[np.bool_] = np.zeros(slots, np.bool_)

    def admit(self, slot: int, request: GenerationRequest) -> None:
        """Take in a request, whose tokens are chosen from now on."""
        sampling = request.sampling
        self._temperature[slot] = 0 if sampling.temperature < _GREEDY_BELOW else sampling.temperature
        self._top_k[slot] = sampling.top_k
        self._top_p[slot] = sampling.top_p
        self._min_p[slot] = sampling.min_p
        self._seeds[slot] = request.seed
        self._steps[slot] = 0
        self._alternatives[slot] = -1 if sampling.logprobs is None else sampling.logprobs
        if sampling.logprob_token_ids:
            self._named[slot] = list(sampling.logprob_token_ids)
        self._of_scaled[slot] = sampling.temp_scaled_logprobs
        self._of_nucleus[slot] = sampling.top_p_normalized_logprobs
        self._adjustments.admit(slot, request)

    def release(self, slot: int) -> None:
        """Forget a request."""
        self._temperature[slot] = 0
        self._alternatives[slot] = -1
        self._named.pop(slot, None)
        self._adjustments.release(slot)

    def choose(self, logits: Floats, slots: Integers) -> ChosenTokens:
        """Return the next token of each row; row i belongs to the request of slots[i]. The logits stay as they are."""
        adjusting = self._adjustments.active[slots].any()
        wanted = logits
        if adjusting:
            wanted = logits.copy()
            self._adjustments.apply(wanted, slots)
        tokens = wanted.argmax(axis=1)
        stuck = np.isneginf(wanted[np.arange(len(slots)), tokens]) if adjusting else None
        self._draw(wanted, slots, tokens, stuck)
        logprobs = self._logprobs(logits, slots, tokens)
        if stuck is not None:
            self._adjustments.accept(slots[~stuck], tokens[~stuck])
            tokens[stuck] = NO_TOKEN
        return ChosenTokens(tokens.tolist(), logprobs)

    def _draw(self, logits: Floats, slots: Integers, tokens: Integers, stuck: NDArray[np.bool_] | None) -> None:
        drawing = self._temperature[slots] > 0
        if stuck is not None:
            drawing &= ~stuck
        rows = np.flatnonzero(drawing)
        if not rows.size:
            return
        drawn = slots[rows]
        settings = DrawSettings(self._temperature[drawn], self._top_k[drawn], self._top_p[drawn], self._min_p[drawn])
        tokens[rows] = draw(logits[rows], settings, uniforms(self._seeds[drawn], self._steps[drawn]))
        self._steps[drawn] += 1

    def _logprobs(self, logits: Floats, slots: Integers, tokens: Integers) -> dict[int, TokenLogprobs]:
        wanted = self._alternatives[slots]
        rows = np.flatnonzero(wanted >= 0)
        if not rows.size:
            return {}
        reported = self._reported(logits[rows], slots[rows])
        found = log_probabilities(reported, tokens[rows], int(wanted.max()))
        chosen, top_ids, top = found.chosen.tolist(), found.top_ids.tolist(), found.top_logprobs.tolist()
        counts = wanted[rows].tolist()
        shown = {
            row: TokenLogprobs(chosen[i], top_ids[i][: counts[i]], top[i][: counts[i]])
            for i, row in enumerate(rows.tolist())
        }
        if self._named:
            for i, (row, slot) in enumerate(zip(rows.tolist(), slots[rows].tolist(), strict=True)):
                if (ids := self._named.get(slot)) is not None:
                    shown[row] = TokenLogprobs(chosen[i], ids, named_log_probabilities(reported[i], ids))
        return shown

    def _reported(self, logits: Floats, slots: Integers) -> Floats:
        """Return the logits whose log probabilities are reported, made in place from the raw ones."""
        if not (self._of_scaled[slots] | self._of_nucleus[slots]).any():
            return logits
        temperature = np.where(self._temperature[slots] > 0, self._temperature[slots], np.float32(1))[:, None]
        nucleus = np.flatnonzero(self._of_nucleus[slots] & (self._top_p[slots] < 1))
        if nucleus.size:
            kept = within_nucleus(logits[nucleus] / temperature[nucleus], self._top_p[slots[nucleus]])
            logits[nucleus] = np.where(kept, logits[nucleus], -np.inf)
        scaled = np.flatnonzero(self._of_scaled[slots])
        if scaled.size:
            logits[scaled] /= temperature[scaled]
        return logits
