"""The state of one choice whose engine answers with text: the counterpart of `id_generation`.

The engine itself ends at its limit and at ending ids; stop strings are found here. Tokens are counted by the engine's
own numbers where it says them, else by the model's tokenizer, which is off by the tokens that have no text.
"""

from conch_contracts.messages.generation import GenerateRequest, PreparedPrompt
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.text.stop_strings import StopScanner
from conch_llm_worker.text.vocabulary import Vocabulary

_COUNTED_CHARACTERS = 512
"""Uncounted text is counted up to its last space when it gets longer, so that no count takes long."""


class TokenCount:
    """Counts the tokens of a text that grows."""

    __slots__ = ("_known", "_pending", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known = 0
        self._pending = ""

    def add(self, text: str) -> None:
        """Take the next piece."""
        self._pending += text
        if len(self._pending) > _COUNTED_CHARACTERS:
            cut = self._pending.rfind(" ")
            cut = cut if cut > 0 else len(self._pending)
            self._known += self._count(self._pending[:cut])
            self._pending = self._pending[cut:]

    def total(self) -> int:
        """Return the number of tokens so far."""
        return self._known + self._count(self._pending)

    def _count(self, text: str) -> int:
        return len(self._vocabulary.borders(text)) if text else 0


class TextGeneration:
    """One choice in the making."""

    def __init__(
        self, request: GenerateRequest, rules: ChoiceRules, vocabulary: Vocabulary, echoed: PreparedPrompt | None = None
    ) -> None:
        self.finish: ChoiceFinish | None = None
        single = (vocabulary.text(word) for word in request.backend.stop_words if len(word) == 1)
        stops = (*rules.stop, *filter(None, single))
        self._rules = rules
        self._echoed = echoed
        self._vocabulary = vocabulary
        self._scanner = StopScanner(stops, include=rules.include_stop) if stops else None
        self._made = self._reported = 0
        self._count: TokenCount | None = None

    @property
    def completion_tokens(self) -> int:
        """How many tokens the engine has made."""
        return self._made + (0 if self._count is None else self._count.total())

    @property
    def echoes(self) -> bool:
        """Return whether the text begins with something that the engine did not make."""
        return self._echoed is not None

    def feed(self, delta: TokenDelta) -> ChoiceUpdate:
        """Take an engine's message and return what it adds; nothing may be fed after an update with a finish."""
        free, watched = self._apart(delta)
        finish = None
        if self._scanner is not None and watched:
            scan = self._scanner.feed(watched)
            watched = scan.text
            finish = None if scan.stop is None else ChoiceFinish("stop", scan.stop)
        text = free + watched
        if finish is None and delta.end is not None:
            finish = self._engine_finish(delta.end)
            text += self._scanner.flush() if self._scanner is not None else ""
        self.finish = finish
        return ChoiceUpdate(text, (), finish, tokens=self._new_tokens() if self._rules.report_tokens else 0)

    def echo(self, prompt: Logprobs | None) -> ChoiceUpdate:
        """Return the prompt as the beginning of the text."""
        return ChoiceUpdate("" if self._echoed is None else self._echoed.text)

    def _new_tokens(self) -> int:
        before, self._reported = self._reported, self.completion_tokens
        return self._reported - before

    def _apart(self, delta: TokenDelta) -> tuple[str, str]:
        """Count a message's tokens, and split its text where stop strings begin to count: after `min_tokens`."""
        least = self._rules.min_tokens if self._scanner is not None else 0
        missing = least - self.completion_tokens if least else 0
        if delta.made is not None:
            self._made += delta.made
        elif delta.text:
            self._count = self._count or TokenCount(self._vocabulary)
            self._count.add(delta.text)
        if missing <= 0:
            return "", delta.text
        borders = self._vocabulary.borders(delta.text)
        if missing >= (len(borders) if delta.made is None else delta.made) or missing > len(borders):
            return delta.text, ""
        cut = borders[missing - 1]
        return delta.text[:cut], delta.text[cut:]

    def _engine_finish(self, end: EngineEnd) -> ChoiceFinish:
        match end:
            case EngineEnd.LENGTH:
                return ChoiceFinish("length")
            case EngineEnd.STOP:
                return ChoiceFinish("stop")
            case EngineEnd.UNKNOWN:
                return ChoiceFinish("length" if self.completion_tokens >= self._rules.max_tokens else "stop")
            case EngineEnd.CANCELLED:
                raise MalformedResponse("The engine gave the request up without being asked to.")
