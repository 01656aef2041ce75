"""One model's tokenizer, read for decoding only: which bytes each id stands for, and detokenizers over it.

A tokenizer.json says how it decodes. Byte-level ones (GPT-2, Llama 3, Qwen) decode token by token, so a table from id
to bytes is all that is needed; the table is trusted only where it gives what the tokenizer itself gives. All others
(SentencePiece with byte fallback, WordPiece) are decoded by the tokenizer, in a short window.
`conch_kit.bundles.tokenizer_cache` loads these objects; `detokenizer` does the incremental work.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Self

from tokenizers import Tokenizer

from conch_kit.bundles.token_bytes import TokenBytes
from conch_kit.bundles.tokenizer_cache import TokenizerUnreadable
from conch_llm_worker.text.detokenizer import (
    ByteLevelDetokenizer,
    Detokenizer,
    TightDetokenizer,
    WindowDetokenizer,
)

_SAMPLE = 512
"""Ids whose table entry is checked against the tokenizer, beside all added tokens."""


class Vocabulary:
    """The decoding half of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, decoders: frozenset[str]) -> None:
        added = tokenizer.get_added_tokens_decoder()
        self._tokenizer = tokenizer
        self._added = {id_: token.content for id_, token in added.items()}
        self._special = {token.content: id_ for id_, token in added.items() if token.special}
        self._all_special = frozenset(self._special.values())
        self._byte_fallback = "ByteFallback" in decoders
        self._fragile = "ByteLevel" in decoders
        self._byte_table: TokenBytes | None = None
        self._skipping_tables: dict[frozenset[int], TokenBytes] = {}
        if decoders <= {"ByteLevel", "Fuse"} and self._fragile:
            self._read_table(added)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read a tokenizer.json; raise `TokenizerUnreadable` when it is not one."""
        try:
            decoders = frozenset(_decoder_types(json.loads(data).get("decoder")))
            tokenizer = Tokenizer.from_str(data.decode())
        except Exception as exc:  # the library raises plain Exception for whatever it cannot read
            raise TokenizerUnreadable(f"The bundle's tokenizer.json cannot be read: {exc}") from exc
        return cls(tokenizer, decoders)

    def detokenizer(
        self, *, skip_special_tokens: bool, spaces: bool = True, keep: frozenset[str] = frozenset()
    ) -> Detokenizer:
        """Return a fresh detokenizer for one text; special tokens are left out of it, but for those to keep.

        Without `spaces` there are none between two special tokens.
        """
        skipped = self._skipped_ids(keep) if skip_special_tokens else frozenset[int]()
        if self._byte_table is not None:
            return ByteLevelDetokenizer(self._skipping_table(skipped) if skipped else self._byte_table)
        window = WindowDetokenizer(self._decode, skipped, self._is_open, fragile=self._fragile)
        return window if spaces or skip_special_tokens else TightDetokenizer(window, self._added)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that an id adds in the middle of a text; part of a character for some."""
        if self._byte_table is not None:
            return self._byte_table[token_id]
        if self._is_open(token_id):
            return bytes.fromhex(str(self._tokenizer.id_to_token(token_id))[3:5])
        return self._decode([token_id, token_id])[len(self._decode([token_id])) :].encode()

    def text(self, ids: Sequence[int]) -> str:
        """Return the decode of all ids at once, without special tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def borders(self, text: str) -> Sequence[int]:
        """Return where each token of a text ends, in characters; their number is that of its tokens."""
        return [end for _, end in self._tokenizer.encode(text, add_special_tokens=False).offsets]

    def skips_any(self, contents: frozenset[str]) -> bool:
        """Return whether one of these texts is a special token, which an engine of text leaves out of its answers."""
        return not contents.isdisjoint(self._special)

    def _skipped_ids(self, keep: frozenset[str]) -> frozenset[int]:
        if not keep:
            return self._all_special
        return frozenset(id_ for content, id_ in self._special.items() if content not in keep)

    def _skipping_table(self, skipped: frozenset[int]) -> TokenBytes:
        known = self._skipping_tables.get(skipped)
        if known is None:
            known = self._skipping_tables[skipped] = TokenBytes(self._tokenizer.id_to_token, skipped)
        return known

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def _is_open(self, token_id: int) -> bool:
        """Tell whether the token is one raw byte (`<0xE4>`), so that what it decodes to depends on the next ones."""
        if not self._byte_fallback:
            return False
        token = self._tokenizer.id_to_token(token_id)
        return token is not None and len(token) == 6 and token.startswith("<0x") and token.endswith(">")

    def _read_table(self, added: Iterable[int]) -> None:
        table = TokenBytes(self._tokenizer.id_to_token, frozenset())
        checked = [*added, *range(min(_SAMPLE, self._tokenizer.get_vocab_size()))]
        if all(table[id_].decode("utf-8", "replace") == self._decode([id_]) for id_ in checked):
            self._byte_table = table


def _decoder_types(decoder: dict[str, object] | None) -> Iterable[str]:
    """Yield the types of a decoder and of all inside a sequence."""
    if decoder is None:
        return
    inner = decoder.get("decoders")
    if isinstance(inner, list):
        for one in inner:
            yield from _decoder_types(one)
    else:
        yield str(decoder.get("type"))
