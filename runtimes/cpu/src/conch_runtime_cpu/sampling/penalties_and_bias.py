"""Changes logits before tokens are chosen: penalties, bias, and what is forbidden.

Order: repetition penalty, frequency and presence penalties, bias, then everything forbidden becomes minus infinity.
The repetition penalty looks at prompt and answer, everything else at the answer only. All rows of a step are adjusted
together; what a request asks for is kept by its slot, a number that stays the same while it runs.
"""

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.masks.logits_mask import LogitsMask
from conch_runtime_cpu.requests import GenerationRequest

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class LogitAdjustments:
    """What the running requests change in their logits, by slot."""

    def __init__(self, slots: int, vocabulary: int) -> None:
        self.active: NDArray[np.bool_] = np.zeros(slots, np.bool_)
        """Whether a slot's request changes anything at all."""
        self._vocabulary = vocabulary
        self._penalties = _Penalties(slots, vocabulary)
        self._biases: dict[int, tuple[Integers, Floats]] = {}
        self._bans: dict[int, _Bans] = {}
        self._allowed: dict[int, NDArray[np.bool_]] = {}
        self._masks: dict[int, LogitsMask] = {}

    def admit(self, slot: int, request: GenerationRequest) -> None:
        """Keep what a request asks for."""
        sampling = request.sampling
        self._penalties.admit(slot, request)
        if sampling.logit_bias:
            ids = np.array(list(sampling.logit_bias), np.int64)
            self._biases[slot] = ids, np.array(list(sampling.logit_bias.values()), np.float32)
        if sampling.bad_words or sampling.min_tokens:
            self._bans[slot] = _Bans(request)
        if sampling.allowed_token_ids is not None:
            self._allowed[slot] = np.zeros(self._vocabulary, np.bool_)
            self._allowed[slot][list(sampling.allowed_token_ids)] = True
        if request.mask is not None:
            self._masks[slot] = request.mask
        kept = (self._biases, self._bans, self._allowed, self._masks)
        self.active[slot] = self._penalties.active[slot] or any(slot in part for part in kept)

    def release(self, slot: int) -> None:
        """Forget a request."""
        self.active[slot] = False
        self._penalties.active[slot] = False
        for kept in (self._biases, self._bans, self._allowed, self._masks):
            kept.pop(slot, None)

    def apply(self, logits: Floats, slots: Integers) -> None:
        """Change the logits in place; row i belongs to the request of slots[i]."""
        self._penalties.apply(logits, slots)
        by_row = list(enumerate(slots.tolist()))
        for row, slot in by_row:
            if slot in self._biases:
                ids, biases = self._biases[slot]
                logits[row, ids] += biases
        for row, slot in by_row:
            if slot in self._bans:
                logits[row, self._bans[slot].forbidden()] = -np.inf
        for row, slot in by_row:
            if slot in self._allowed:
                logits[row, ~self._allowed[slot]] = -np.inf
        for row, slot in by_row:
            if slot in self._masks:
                allowed = np.zeros(logits.shape[1], np.bool_)
                self._masks[slot].fill(allowed)
                logits[row, ~allowed] = -np.inf

    def accept(self, slots: Integers, tokens: Integers) -> None:
        """Take note of the tokens that were chosen."""
        self._penalties.accept(slots, tokens)
        if self._bans or self._masks:
            for slot, token in zip(slots.tolist(), tokens.tolist(), strict=True):
                if slot in self._bans:
                    self._bans[slot].made.append(token)
                if slot in self._masks:
                    self._masks[slot].accept(token)


class _Penalties:
    def __init__(self, slots: int, vocabulary: int) -> None:
        self.active: NDArray[np.bool_] = np.zeros(slots, np.bool_)
        self._repetition: Floats = np.ones(slots, np.float32)
        self._frequency: Floats = np.zeros(slots, np.float32)
        self._presence: Floats = np.zeros(slots, np.float32)
        # Zeroed memory costs nothing until a penalty touches it.
        self._counts: Floats = np.zeros((slots, vocabulary), np.float32)
        self._seen: NDArray[np.bool_] = np.zeros((slots, vocabulary), np.bool_)

    def admit(self, slot: int, request: GenerationRequest) -> None:
        sampling = request.sampling
        neutral = sampling.repetition_penalty == 1 and not (sampling.frequency_penalty or sampling.presence_penalty)
        self.active[slot] = not neutral
        if neutral:
            return
        self._repetition[slot] = sampling.repetition_penalty
        self._frequency[slot] = sampling.frequency_penalty
        self._presence[slot] = sampling.presence_penalty
        self._counts[slot] = 0
        self._seen[slot] = False
        self._seen[slot, request.prompt] = True

    def apply(self, logits: Floats, slots: Integers) -> None:
        rows = np.flatnonzero(self.active[slots])
        if not rows.size:
            return
        penalised, raw, counts = slots[rows], logits[rows], self._counts[slots[rows]]
        factor = self._repetition[penalised, None]
        repeated = np.where(raw > 0, raw / factor, raw * factor)
        adjusted = np.where(self._seen[penalised], repeated, raw)
        adjusted -= self._frequency[penalised, None] * counts
        adjusted -= self._presence[penalised, None] * (counts > 0)
        logits[rows] = adjusted

    def accept(self, slots: Integers, tokens: Integers) -> None:
        rows = np.flatnonzero(self.active[slots])
        self._counts[slots[rows], tokens[rows]] += 1
        self._seen[slots[rows], tokens[rows]] = True


class _Bans:
    """Ending ids before `min_tokens`, and the last id of every bad word whose others have just been made."""

    def __init__(self, request: GenerationRequest) -> None:
        sampling = request.sampling
        self.made: list[int] = []
        self._least = sampling.min_tokens
        self._endings = [*sampling.eos_token_ids, *sampling.stop_token_ids]
        self._bad_words = [(list(word[:-1]), word[-1]) for word in sampling.bad_words]

    def forbidden(self) -> list[int]:
        made = self.made
        words = [last for first, last in self._bad_words if not first or made[-len(first) :] == first]
        return [*words, *self._endings] if len(made) < self._least else words
