"""The tokenizer of a model of speech: which ids stand for texts, times and orders; no id is ever assumed."""

import re
from collections.abc import Sequence
from typing import Self

from tokenizers import Tokenizer

from conch_contracts.dialects import speech as dialect
from conch_kit.bundles.token_bytes import TokenBytes
from conch_kit.bundles.tokenizer_cache import TokenizerUnreadable

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


class TranscriptVocabulary:
    """The ids of one model; its methods are pure."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raise TokenizerUnreadable for a tokenizer that is none of a Whisper model."""
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        special = {token.content: number for number, token in added.items()}
        skipped = frozenset(number for number, token in added.items() if token.special)
        self._bytes = TokenBytes(tokenizer.id_to_token, skipped)
        try:
            self.start_id = special[dialect.START]
            self.first_time_id = special[dialect.NO_TIMES] + 1
        except KeyError as missing:
            raise TokenizerUnreadable(f"The bundle's tokenizer.json has no token {missing}.") from missing
        self.previous_id = special.get(dialect.PREVIOUS)
        self.task_ids = {"transcribe": special.get(dialect.TRANSCRIBE), "translate": special.get(dialect.TRANSLATE)}
        self.languages = {
            found[1]: number for content, number in special.items() if (found := _LANGUAGE.fullmatch(content))
        }
        self._codes = {number: code for code, number in self.languages.items()}

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read a tokenizer.json; raises TokenizerUnreadable."""
        try:
            tokenizer = Tokenizer.from_str(data.decode())
        except Exception as exc:  # the library raises plain Exception for whatever it cannot read
            raise TokenizerUnreadable(f"The bundle's tokenizer.json cannot be read: {exc}") from exc
        return cls(tokenizer)

    def language_of(self, number: int) -> str | None:
        """Return the code of a language's id."""
        return self._codes.get(number)

    def is_time(self, number: int) -> bool:
        """Return whether an id stands for a time."""
        return number >= self.first_time_id

    def seconds(self, number: int) -> float:
        """Return the time that an id stands for."""
        return round((number - self.first_time_id) * dialect.SECONDS_PER_TIME_ID, 2)

    def text(self, ids: Sequence[int]) -> str:
        """Return what ids of text stand for."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def ids(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text, as the model itself would write it."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def marks(self, ids: Sequence[int]) -> str:
        """Return how special tokens are written."""
        return "".join(self._tokenizer.id_to_token(number) or "" for number in ids)

    def token_bytes(self, number: int) -> bytes:
        """Return the bytes that an id of text stands for: part of a character for some, none for special ones."""
        return self._bytes[number]
