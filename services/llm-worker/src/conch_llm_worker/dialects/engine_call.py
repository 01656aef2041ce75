"""The engine call of one choice, and what a dialect needs to write it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from conch_contracts.messages.generation import GenerateRequest, PreparedPrompt, SamplingParameters
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_llm_worker.dialects.token_deltas import TokenDelta


@dataclass(frozen=True, slots=True)
class PreparedChoice:
    """One choice as it is asked of an engine whose config has been read."""

    request: GenerateRequest
    prompt: PreparedPrompt
    sampling: SamplingParameters
    """Those of the request, with the choice's own seed."""
    declared: DeclaredTensors
    decode: Callable[[Sequence[int]], str]
    """Returns the text of ids."""

    keep_special_tokens: bool = False
    """Whether special tokens are part of the text: the client wants them, or the answer is taken apart by one."""

    def bad_words(self) -> list[str]:
        """Return the words that must not appear, as text, each once; a space before one makes it another word."""
        words = (self.decode(word) for word in self.sampling.bad_words)
        return list(dict.fromkeys(filter(None, words)))


class DeltaReader(Protocol):
    """Reads the messages of one stream, in order."""

    def read(self, response: ModelInferResponse) -> TokenDelta:
        """Return what a message brought; raise `MalformedResponse` when it breaks the dialect's contract."""
        ...


class EngineCall(NamedTuple):
    """One engine call: the message to send, how its answers are read, and whether they come as a stream."""

    message: ModelInferRequest
    reader: DeltaReader
    streamed: bool
    most_bytes: int
    """How long a message of the answer may be."""
    answers_text: bool = False
    """Whether the answers are text instead of ids."""
    beam_readers: tuple[DeltaReader, ...] = ()
    """One reader for each beam of a search: each finds its own in the last message, which alone counts."""
    stop_words_sent: bool = False
    """Whether the engine knows the model's own stop words, so that it ends at them by itself."""
