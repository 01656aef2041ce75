"""Collects what became of a window in a response, and packs that into the tensors of the `speech` dialect."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects import speech as dialect
from conch_runtime_cpu.engine.speech_scheduler import HeardSound, SpokenAnswer, WindowEvent

Tensors = list[tuple[str, NDArray[np.generic] | NDArray[np.object_]]]


@dataclass(slots=True)
class SpeechResponse:
    """What became of one window since its last message; nothing at all where it is a sign of life."""

    heard: HeardSound | None = None
    answer: SpokenAnswer | None = None
    error: str | None = None

    @property
    def final(self) -> bool:
        """Return whether nothing comes after this."""
        return self.answer is not None or self.error is not None

    def add(self, event: WindowEvent) -> None:
        """Take in what one step brought."""
        self.heard = event.heard or self.heard
        self.answer = event.answer or self.answer
        self.error = event.error or self.error


def pack_speech(response: SpeechResponse) -> Tensors:
    """Return the named tensors of one message that carries no error."""
    tensors: Tensors = []
    if response.heard is not None:
        tensors.append((dialect.LANGUAGE_ID, np.array([response.heard.language_id], np.int32)))
        tensors.append((dialect.NO_SPEECH_PROB, np.array([response.heard.no_speech_prob], np.float32)))
    answer = response.answer
    if answer is None:
        return [*tensors, (dialect.TOKEN_IDS, np.zeros(0, np.int32))]
    tensors += [
        (dialect.TOKEN_IDS, np.array(answer.tokens, np.int32)),
        (dialect.LOGPROBS, np.array(answer.logprobs, np.float32)),
        (dialect.AVG_LOGPROB, np.array([answer.avg_logprob], np.float32)),
        (dialect.TEMPERATURE, np.array([answer.temperature], np.float32)),
        (dialect.FINISH_REASON, np.array([answer.reason.encode()], np.object_)),
    ]
    if answer.times is not None:
        tensors.append((dialect.TOKEN_TIMES, answer.times))
    return tensors
