"""Collects what a request made in a response, and packs that into the tensors of the `tokens` dialect."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects import tokens as dialect
from conch_runtime_cpu.engine.scheduler import FinishedRequest, SequenceEvent
from conch_runtime_cpu.sampling.logprobs import LogprobRows
from conch_runtime_cpu.sampling.sampler import TokenLogprobs

Tensors = list[tuple[str, NDArray[np.generic] | NDArray[np.object_]]]


@dataclass(slots=True)
class PartialResponse:
    """What one request made since its last message."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    """As long as `tokens`, or empty when the request did not ask."""
    prompt: LogprobRows | None = None
    finish: FinishedRequest | None = None
    error: str | None = None

    @property
    def final(self) -> bool:
        """Return whether nothing comes after this."""
        return self.finish is not None or self.error is not None

    def add(self, event: SequenceEvent) -> None:
        """Take in what one step brought."""
        if event.token is not None:
            self.tokens.append(event.token)
        if event.logprobs is not None:
            self.logprobs.append(event.logprobs)
        self.prompt = event.prompt or self.prompt
        self.finish = event.finish or self.finish
        self.error = event.error or self.error


def pack(response: PartialResponse) -> Tensors:
    """Return the named tensors of one message that carries no error."""
    tensors: Tensors = [(dialect.TOKEN_IDS, np.array(response.tokens, np.int32))]
    if response.logprobs:
        tensors += _logprobs(response)
    if response.prompt is not None:
        tensors += _prompt(response.prompt)
    if response.finish is not None:
        tensors.append((dialect.FINISH_REASON, np.array([response.finish.reason.encode()], np.object_)))
        tensors.append((dialect.STOP_TOKEN_ID, np.array([response.finish.stop_token], np.int32)))
    return tensors


def _logprobs(response: PartialResponse) -> Tensors:
    tensors: Tensors = [(dialect.LOGPROBS, np.array([one.chosen for one in response.logprobs], np.float32))]
    if response.logprobs[0].top_ids:
        tensors.append((dialect.TOP_IDS, np.array([one.top_ids for one in response.logprobs], np.int32)))
        tensors.append((dialect.TOP_LOGPROBS, np.array([one.top_logprobs for one in response.logprobs], np.float32)))
    return tensors


def _prompt(rows: LogprobRows) -> Tensors:
    """Put a row in front for the prompt's first id, of which nothing is known."""
    alternatives = rows.top_ids.shape[1]
    tensors: Tensors = [(dialect.PROMPT_LOGPROBS, np.append(np.float32(np.nan), rows.chosen).astype(np.float32))]
    tensors.append((dialect.PROMPT_RANKS, np.append(0, rows.ranks).astype(np.int32)))
    if alternatives:
        unknown_ids = np.full((1, alternatives), -1, np.int32)
        unknown = np.full((1, alternatives), np.nan, np.float32)
        tensors.append((dialect.PROMPT_TOP_IDS, np.vstack([unknown_ids, rows.top_ids]).astype(np.int32)))
        tensors.append((dialect.PROMPT_TOP_LOGPROBS, np.vstack([unknown, rows.top_logprobs]).astype(np.float32)))
    return tensors
