"""A tokenizer for grammars that spells text with ordinary tokens, whatever the text says.

llguidance tokenizes a text that a grammar forces, and finds a tokenizer's added tokens in it: `<think>` in a schema
would become the id that begins thinking, and an end's name the end. A grammar that means such a token names it.
"""

from collections.abc import Sequence

from llguidance import LLTokenizer, TokenizerWrapper


def text_tokenizer(definition: str, vocabulary: int | None) -> LLTokenizer:
    """Return the tokenizer that a tokenizer.json defines; raises ValueError.

    `vocabulary` is how many logits the model has.
    """
    defined = LLTokenizer(definition, n_vocab=vocabulary, slices=[])
    spelling = TokenizerWrapper(_Spelling(defined))
    return LLTokenizer(spelling, n_vocab=defined.vocab_size, eos_token=defined.eos_tokens)


class _Spelling:
    """What llguidance asks of a tokenizer that it does not know."""

    def __init__(self, defined: LLTokenizer) -> None:
        everything = range(defined.vocab_size)
        self.eos_token_id = defined.eos_token
        self.bos_token_id = None
        self.tokens: Sequence[bytes] = [defined.decode_bytes([token]) for token in everything]
        self.special_token_ids: Sequence[int] = [token for token in everything if defined.is_special_token(token)]
        self._special = frozenset(self.special_token_ids)
        self._defined = defined

    def __call__(self, text: bytes) -> list[int]:
        """Return the ids of a text in UTF-8."""
        usual = self._defined.tokenize_bytes(text)
        if self._special.isdisjoint(usual):
            return usual
        return self._defined.greedy_tokenize(text.decode())
