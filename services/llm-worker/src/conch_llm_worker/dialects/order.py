"""One choice as it is ordered from an engine whose config has been read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conch_contracts.messages.generation import GenerateRequest, PreparedPrompt, SamplingParameters
from conch_kit.triton.declared_tensors import DeclaredTensors


@dataclass(frozen=True, slots=True)
class Order:
    """What a dialect needs to write the message of one choice."""

    request: GenerateRequest
    prompt: PreparedPrompt
    sampling: SamplingParameters
    """Those of the request, with the choice's own seed."""
    layout: DeclaredTensors
    decode: Callable[[Sequence[int]], str]
    """Returns the text of ids."""

    keep_special_tokens: bool = False
    """Whether special tokens are part of the text: the client wants them, or the answer is taken apart by one."""

    def bad_words(self) -> list[str]:
        """Return the words that must not appear, as text: each once, without the space that its ids may begin with."""
        words = (self.decode(word).strip() for word in self.sampling.bad_words)
        return list(dict.fromkeys(filter(None, words)))
