"""Compiles grammars for one tokenizer. How much a grammar may take is the same wherever it is compiled.

The limits below bound the work and the memory of llguidance itself and are deterministic. They do not bound everything
(a long chain of rules overflows the stack), so a grammar from a client is compiled in a process that may die first.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from random import Random

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_guidance.errors import UnusableGrammar
from conch_guidance.grammar_bounds import inspect
from conch_guidance.text_tokenizer import text_tokenizer
from conch_guidance.translation import translated

TOKENIZER_FILE = "tokenizer.json"
_MAX_REASON_CHARS = 300
_NOTATIONS = (GrammarKind.GRAMMAR, GrammarKind.STRUCTURAL_TAG)
_NOTHING_MATCHES = ("NoExtension", "NoExtensionBias")
_WALKS = 3
_WALK_TOKENS = 24
"""What a check tries out of a grammar: so many answers up to so many tokens."""


def limits() -> LLParserLimits:
    """Return what one grammar may take: some 20 ms to build the lexer, 10 ms and a few megabytes for a step."""
    return LLParserLimits(
        initial_lexer_fuel=1_000_000,
        step_lexer_fuel=100_000,
        step_max_items=50_000,
        max_items_in_row=2_000,
        max_lexer_states=20_000,
        max_grammar_size=200_000,
        verbose_errors=False,
    )


class GrammarCompiler:
    """Knows one tokenizer, and the grammars that were compiled for it last. Not for several threads."""

    def __init__(self, tokenizer: LLTokenizer, added_tokens: Mapping[str, int], *, kept: int) -> None:
        self._tokenizer = tokenizer
        self._added_tokens = added_tokens
        self._limits = limits()
        self._kept = kept
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()

    @classmethod
    def of_folder(cls, folder: Path, *, vocabulary: int | None, kept: int) -> "GrammarCompiler":
        """Return the compiler for the tokenizer in a folder; raises UnusableGrammar where it has none that fits.

        `vocabulary` is how many logits the model has.
        """
        try:
            text = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
            tokenizer = text_tokenizer(text, vocabulary)
        except (OSError, ValueError) as exc:
            raise UnusableGrammar(f"this model's tokenizer does not allow grammars: {_reason(str(exc))}") from exc
        added = {token["content"]: token["id"] for token in json.loads(text).get("added_tokens") or ()}
        return cls(tokenizer, added, kept=kept)

    @property
    def ending_ids(self) -> list[int]:
        """Return the ids that the tokenizer itself takes for the end; a request may have others."""
        return self._tokenizer.eos_tokens

    def check(self, grammar: Grammar, *, foreign: bool) -> None:
        """Raise UnusableGrammar for a grammar that cannot be obeyed.

        A `foreign` one is for an engine with a compiler of its own, which knows more of JSON Schema, and has its own
        notations for grammars and tags. What this compiler's engine would get to see of any other is tried out.
        """
        if foreign and grammar.kind in _NOTATIONS:
            inspect(grammar)
            return
        matcher = self._compile(grammar, lenient=foreign)
        for walk in range(0 if foreign else _WALKS):
            self._walk(matcher.deep_copy(), Random(walk))

    def matcher(self, grammar: Grammar) -> LLMatcher:
        """Return a matcher at the beginning of an answer; raises UnusableGrammar."""
        known = self._compiled.get(grammar)
        if known is None:
            known = self._compiled[grammar] = self._compile(grammar, lenient=False)
            if len(self._compiled) > self._kept:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        return known.deep_copy()

    def _compile(self, grammar: Grammar, *, lenient: bool) -> LLMatcher:
        inspect(grammar)
        text = translated(grammar, self._added_tokens, lenient=lenient)
        matcher = LLMatcher(self._tokenizer, text, log_level=0, limits=self._limits)
        first = b"" if matcher.is_error() else matcher.compute_bitmask()
        reason = _reason(matcher.get_error())
        if reason in _NOTHING_MATCHES or (not reason and not self._begins(first)):
            raise UnusableGrammar("no text matches it")
        if reason:
            raise UnusableGrammar(reason)
        return matcher

    def _walk(self, matcher: LLMatcher, random: Random) -> None:
        """Begin an answer as an engine may; raises UnusableGrammar where it could not go on.

        Much of what exceeds the limits does so behind the first tokens only.
        """
        for _ in range(_WALK_TOKENS):
            allowed = self._without_endings(matcher.compute_bitmask())
            reason = _reason(matcher.get_error())
            if reason in _NOTHING_MATCHES:
                raise UnusableGrammar("it allows a beginning after which nothing can follow")
            if reason:
                raise UnusableGrammar(reason)
            if not allowed or matcher.is_stopped():
                return
            matcher.consume_token(_one_of(allowed, random))

    def _begins(self, mask: bytes) -> bool:
        """Return whether any token may begin an answer: a grammar that allows nothing but the end is a mistake."""
        return self._without_endings(mask) != 0

    def _without_endings(self, mask: bytes) -> int:
        """Return a mask of tokens as the bits of a number, those of the tokenizer's ends cleared."""
        allowed = int.from_bytes(mask, "little")
        for ending in self.ending_ids:
            allowed &= ~(1 << ending)
        return allowed


def _one_of(allowed: int, random: Random) -> int:
    """Return the place of one of a number's bits."""
    skipped = random.randrange(allowed.bit_length())
    rest = allowed >> skipped
    return skipped + (rest & -rest).bit_length() - 1


def _reason(message: str) -> str:
    """Return what an error says without the text that it quotes in between."""
    first, _, rest = message.strip().partition("\n")
    details = [line.strip() for line in rest.splitlines() if line.startswith("error: ")]
    return " ".join([first, *details])[:_MAX_REASON_CHARS]
