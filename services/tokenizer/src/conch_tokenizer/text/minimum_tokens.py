"""How few tokens a text can have, told by a tokenizer's own parts without encoding; pure.

Encoding a text of megabytes takes seconds. To see that it is too long for a model takes two facts of the vocabulary:
how many bytes its longest token has, and whether any token reaches from a letter over a blank into the next word. They
hold only where every part of the tokenizer accounts for all of the text: a normalizer that removes control characters,
or a pre-tokenizer that removes blanks, can make one token of a megabyte. So there is a bound only where every part is
known to keep the text.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import ascii_letters
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

MOST_SHRUNK = 4
"""UTF-8 bytes that Unicode's normal forms and small letters can make one byte of; 𝐀 becomes A."""
_LARGEST_CHARACTER = 4
_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Lowercase"})
_CUTS_ONLY = frozenset({"Digits", "UnicodeScripts", "Metaspace", "ByteLevel"})
_MAY_REMOVE = frozenset({"Split", "Punctuation"})
_LETTERS_AND_BLANKS = bytes(
    ord("a") if chr(byte) in ascii_letters else byte if chr(byte) == " " else ord(".") for byte in range(256)
)
"""Makes every byte of UTF-8 one of three, so that the ends of words can be counted in no time."""
_WORD_END = b"a "
_ACROSS_BLANKS = re.compile("[A-Za-z][ Ġ▁]")
"""A blank as it is, as bytes are spelt, and as sentence pieces are."""

Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of a text one token can stand for."""

    bytes_per_token: int
    ends_with_words: bool
    """Whether no token goes on behind a letter that a blank follows."""

    def at_least(self, text: str) -> int:
        """Return a number of tokens that the text reaches for certain."""
        data = text.encode()
        by_size = -(-len(data) // self.bytes_per_token)
        return max(by_size, data.translate(_LETTERS_AND_BLANKS).count(_WORD_END)) if self.ends_with_words else by_size


def reach(tokenizer: Tokenizer) -> Reach | None:
    """Return how much of a text one of the tokenizer's tokens can stand for; None where there is no bound."""
    normalizers = _parts(tokenizer.normalizer, "normalizers")
    pre_tokenizers = _parts(tokenizer.pre_tokenizer, "pretokenizers")
    shrunk = _shrunk(normalizers)
    added = tokenizer.get_added_tokens_decoder().values()
    if shrunk is None or not all(map(_keeps_text, pre_tokenizers)) or any(_takes_blanks(token) for token in added):
        return None
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    spelt_in_bytes = any(part["type"] == "ByteLevel" for part in pre_tokenizers)
    if not _knows_every_text(tokenizer.model, vocabulary, spelt_in_bytes=spelt_in_bytes):
        return None
    # Where words are spelt in bytes, each character of one is a byte of the text.
    sizes = [*map(len if spelt_in_bytes else _size, vocabulary), *(_size(token.content) for token in added)]
    words = (*vocabulary, *(token.content for token in added))
    return Reach(
        bytes_per_token=max(_LARGEST_CHARACTER, *sizes) * shrunk,
        ends_with_words=_keeps_blanks((*normalizers, *pre_tokenizers)) and not any(map(_ACROSS_BLANKS.search, words)),
    )


def _parts(component: Any, members: str) -> list[Part]:
    """Return what a normalizer or pre-tokenizer is made of."""
    if component is None:
        return []
    found: list[Part] = []
    ahead: list[Part] = [json.loads(component.__getstate__())]
    while ahead:
        part = ahead.pop(0)
        if part["type"] == "Sequence":
            ahead = [*part[members], *ahead]
        else:
            found.append(part)
    return found


def _shrunk(normalizers: Iterable[Part]) -> int | None:
    """Return how many bytes become one at most; None where text can vanish."""
    factor = 1
    for part in normalizers:
        if part["type"] in _FORMS:
            factor *= MOST_SHRUNK
        elif part["type"] != "Prepend" and not _replaces_by_no_less(part):
            return None
    return factor


def _replaces_by_no_less(part: Part) -> bool:
    if part["type"] != "Replace":
        return False
    pattern = part["pattern"].get("String")
    return pattern is not None and _size(pattern) <= _size(part["content"])


def _keeps_text(part: Part) -> bool:
    return part["type"] in _CUTS_ONLY or (part["type"] in _MAY_REMOVE and part["behavior"] != "Removed")


def _keeps_blanks(parts: Iterable[Part]) -> bool:
    """Tell whether a blank behind a letter stays one, in one of its spellings."""
    return all(
        (part["type"] != "Replace" or (part["pattern"].get("String"), part["content"]) == (" ", "▁"))
        and (part["type"] != "Metaspace" or part["replacement"] == "▁")
        for part in parts
    )


def _takes_blanks(token: Any) -> bool:
    """Tell whether an added token takes the blanks beside it along, however many."""
    return bool(token.lstrip or token.rstrip)


def _knows_every_text(model: Any, vocabulary: Mapping[str, int], *, spelt_in_bytes: bool) -> bool:
    """Tell whether no piece of a text is dropped, or merged with others into one unknown token."""
    if not isinstance(model, BPE):
        return False
    if spelt_in_bytes:
        return vocabulary.keys() >= set(ByteLevel.alphabet())
    if model.byte_fallback and all(f"<0x{byte:02X}>" in vocabulary for byte in range(256)):
        return True
    return model.unk_token is not None and not model.fuse_unk


def _size(text: str) -> int:
    return len(text.encode())
