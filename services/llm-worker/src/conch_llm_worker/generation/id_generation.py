"""The state of one choice: ids go in, text goes out, until something ends it. Pure; `choices` feeds it.

What ends a choice: an end-of-sequence id or a stop id (neither is in the text), a stop string, `max_tokens`, or the
engine. `completion_tokens` counts the ids that the engine made up to and including the one that ended the choice, the
end-of-sequence id too. All of it is the same however the engine groups its tokens into messages.
"""

import math
from collections.abc import Sequence

from conch_contracts.messages.generation import PreparedPrompt
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.text.detokenizer import Detokenizer
from conch_llm_worker.text.stop_strings import StopScanner
from conch_llm_worker.text.vocabulary import Vocabulary

_MOST_PENDING = 64
"""Tokens that wait for a text to be released: a model may make tokens without text without end."""


class IdGeneration:
    """One choice in the making."""

    def __init__(self, rules: ChoiceRules, vocabulary: Vocabulary, echoed: PreparedPrompt | None = None) -> None:
        self.completion_tokens = 0
        self.finish: ChoiceFinish | None = None
        self._rules = rules
        self._echoed = echoed
        self._vocabulary = vocabulary
        self._detokenizer: Detokenizer = vocabulary.detokenizer(
            skip_special_tokens=rules.skip_special_tokens,
            spaces=rules.spaces_between_special_tokens,
            keep=rules.marks,
        )
        self._scanner = StopScanner(rules.stop, include=rules.include_stop) if rules.stop else None
        self._stepwise = bool(rules.stop) or rules.logprobs
        self._made = self._released = len(echoed.text) if echoed else 0
        self._pending: list[TokenEntry] = []

    @property
    def echoes(self) -> bool:
        """Return whether the text begins with something that the engine did not make."""
        return self._echoed is not None

    def feed(self, delta: TokenDelta) -> ChoiceUpdate:
        """Take an engine's message and return what it adds; nothing may be fed after an update with a finish."""
        if not self._rules.report_tokens:
            return self._feed(delta)
        before = self.completion_tokens
        update = self._feed(delta)
        count = self.completion_tokens - before
        logprob_sum = sum(delta.logprobs.chosen[:count]) if delta.logprobs is not None else 0.0
        return update._replace(ids=delta.ids[:count], logprob_sum=logprob_sum, tokens=count)

    def _feed(self, delta: TokenDelta) -> ChoiceUpdate:
        ids, finish = self._cut(delta.ids)
        if self._stepwise:
            text, finish = self._feed_one_by_one(ids, delta.logprobs, finish)
        else:
            self.completion_tokens += len(ids)
            text = self._detokenizer.feed(ids) if ids else ""
        if finish is not None and len(ids) < len(delta.ids) and finish.reason == "stop" and not self._stopped(finish):
            self.completion_tokens += 1  # the ending id, which has no text
            if self._rules.logprobs and delta.logprobs is not None:
                self._pending.append(_entry(self._made, delta.ids[len(ids)], delta.logprobs, len(ids)))
        if finish is None and delta.end is not None:
            finish = _engine_finish(delta, self._rules)
        if finish is not None and not self._stopped(finish):
            rest, finish = self._flush(finish)
            text += rest
        return self._update(text, finish)

    def echo(self, prompt: Logprobs | None) -> ChoiceUpdate:
        """Return the prompt as the beginning of the text, with its log probabilities when they are shown."""
        if self._echoed is None:
            return ChoiceUpdate("")
        ids = self._echoed.ids
        if not self._rules.logprobs or not ids:
            return ChoiceUpdate(self._echoed.text)
        if prompt is None or len(prompt.chosen) != len(ids):
            raise MalformedResponse(f"The engine gave no log probabilities for the prompt's {len(ids)} tokens.")
        detokenizer = self._vocabulary.detokenizer(skip_special_tokens=True)
        entries, offset = [], 0
        for at, token_id in enumerate(ids):
            entries.append(_entry(offset, token_id, prompt, at))
            offset += len(detokenizer.feed((token_id,)))
        return ChoiceUpdate(self._echoed.text, entries)

    def _cut(self, ids: Sequence[int]) -> tuple[Sequence[int], ChoiceFinish | None]:
        """Return the ids that make text, and the finish that the ids themselves bring."""
        rules, made = self._rules, self.completion_tokens
        if not rules.ending_ids.isdisjoint(ids):
            for at, token_id in enumerate(ids):
                if token_id in rules.ending_ids and rules.min_tokens < made + at + 1 <= rules.max_tokens:
                    return ids[:at], ChoiceFinish("stop", None if token_id in rules.eos_ids else token_id)
        if made + len(ids) >= rules.max_tokens:
            return ids[: rules.max_tokens - made], ChoiceFinish("length")
        return ids, None

    def _feed_one_by_one(
        self, ids: Sequence[int], logprobs: Logprobs | None, finish: ChoiceFinish | None
    ) -> tuple[str, ChoiceFinish | None]:
        scanner, min_tokens, parts = self._scanner, self._rules.min_tokens, []
        if self._rules.logprobs and ids and logprobs is None:
            raise MalformedResponse("The engine gave no log probabilities.")
        for at, token_id in enumerate(ids):
            if self._rules.logprobs and logprobs is not None:
                self._pending.append(_entry(self._made, token_id, logprobs, at))
            piece = self._detokenizer.feed((token_id,))
            self._made += len(piece)
            self.completion_tokens += 1
            if scanner is None or self.completion_tokens <= min_tokens:
                parts.append(piece)
                continue
            scan = scanner.feed(piece)
            parts.append(scan.text)
            if scan.stop is not None:
                return "".join(parts), ChoiceFinish("stop", scan.stop)
        return "".join(parts), finish

    def _flush(self, finish: ChoiceFinish) -> tuple[str, ChoiceFinish]:
        """Return what was held back; it may complete a stop string."""
        rest = self._detokenizer.finish()
        if self._scanner is None:
            return rest, finish
        scan = self._scanner.feed(rest)
        if scan.stop is not None:
            return scan.text, ChoiceFinish("stop", scan.stop)
        return scan.text + self._scanner.flush(), finish

    def _stopped(self, finish: ChoiceFinish) -> bool:
        """Tell whether a stop string ended the choice, so that nothing held back may follow."""
        return isinstance(finish.stop_reason, str)

    def _update(self, text: str, finish: ChoiceFinish | None) -> ChoiceUpdate:
        self.finish = finish
        if not self._rules.logprobs:
            return ChoiceUpdate(text, (), finish)
        self._released += len(text)
        if finish is not None:
            ready, self._pending = self._pending, []
        else:
            cut = next((at for at, entry in enumerate(self._pending) if entry.offset >= self._released), None)
            if cut == 0:
                if len(self._pending) < _MOST_PENDING:
                    return ChoiceUpdate(text, (), finish)
                cut = None
            ready = self._pending if cut is None else self._pending[:cut]
            self._pending = [] if cut is None else self._pending[cut:]
        return ChoiceUpdate(text, ready, finish)


def prompt_entries(ids: Sequence[int], found: Logprobs | None, alternatives: int) -> list[TokenEntry]:
    """Return a prompt's tokens with so many alternatives each; raise `MalformedResponse` when they are missing."""
    if found is None or len(found.chosen) != len(ids):
        raise MalformedResponse(f"The engine gave no log probabilities for the prompt's {len(ids)} tokens.")
    entries = (_entry(0, token_id, found, at) for at, token_id in enumerate(ids))
    return [entry._replace(top_ids=entry.top_ids[:alternatives], top=entry.top[:alternatives]) for entry in entries]


def _engine_finish(delta: TokenDelta, rules: ChoiceRules) -> ChoiceFinish:
    """Say in the API's words why the engine ended a choice that nothing of ours has ended."""
    match delta.end:
        case EngineEnd.LENGTH:
            return ChoiceFinish("length")
        case EngineEnd.STOP | EngineEnd.UNKNOWN:
            stop = delta.stop_token_id
            return ChoiceFinish("stop", None if stop is None or stop in rules.eos_ids else stop)
        case _:
            raise MalformedResponse("The engine gave the request up without being asked to.")


def _entry(offset: int, token_id: int, logprobs: Logprobs, at: int) -> TokenEntry:
    value = logprobs.chosen[at]
    if math.isnan(value):
        return TokenEntry(offset, token_id, None, (), ())
    top_ids = logprobs.top_ids[at] if logprobs.top_ids else ()
    rank = logprobs.ranks[at] if logprobs.ranks else None
    return TokenEntry(offset, token_id, value, top_ids, logprobs.top[at] if logprobs.top else (), rank)
