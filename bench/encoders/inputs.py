"""Texts of 32 tokens, each different from all before, and their ids."""

import random
from pathlib import Path

from tokenizers import Tokenizer

TOKENS = 32
_SPECIAL = 2
_WORDS = 400


class Inputs:
    """Makes texts of words that are one token each."""

    def __init__(self, model: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=False)
        plain = sorted(word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 3)
        self._random = random.Random(1)
        self._words = self._random.sample(plain, _WORDS)

    def texts(self, count: int) -> list[str]:
        """Return new texts."""
        return [" ".join(self._random.choices(self._words, k=TOKENS - _SPECIAL)) for _ in range(count)]

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of texts."""
        encoded: list[list[int]] = [item.ids for item in self._tokenizer.encode_batch(texts)]
        return encoded
