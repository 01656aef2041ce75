"""Turns a growing list of ids into text piece by piece; the pieces together are the decode of all ids at once.

A piece never ends inside a UTF-8 character. `tokenizers.decoders.DecodeStream` is not used: it has no way to end a
text whose last bytes are invalid, and raises where later bytes change what earlier ones decode to.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from conch_kit.bundles.token_bytes import TokenBytes

_REPLACEMENT = "\ufffd"
_LONGEST_CHARACTER = 8
"""Tokens after which an unfinished character of an unusual byte-level tokenizer is given up."""


class Detokenizer(Protocol):
    """One text in the making."""

    def feed(self, ids: Sequence[int]) -> str:
        """Take the next ids and return the text that is now certain."""
        ...

    def finish(self) -> str:
        """Return what was still held back; invalid bytes as U+FFFD."""
        ...


class ByteLevelDetokenizer:
    """Joins the tokens' bytes and decodes them incrementally: a fraction of a microsecond per token."""

    __slots__ = ("_decode", "_pieces")

    def __init__(self, pieces: TokenBytes) -> None:
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, ids: Sequence[int]) -> str:
        """Take the next ids and return the text that is now certain."""
        pieces = self._pieces
        return self._decode(pieces[ids[0]] if len(ids) == 1 else b"".join([pieces[id_] for id_ in ids]))

    def finish(self) -> str:
        """Return what was still held back."""
        return self._decode(b"", True)  # noqa: FBT003 - the codec's own positional signature


class WindowDetokenizer:
    """Asks the tokenizer itself, with the tokens of the last piece as left context.

    A run of raw byte tokens is held until it ends, since one bad byte turns the whole run into U+FFFD.
    """

    __slots__ = ("_closed", "_decode", "_fragile", "_is_open", "_known", "_read", "_skipped_ids", "_window")

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        skipped: frozenset[int],
        is_open: Callable[[int], bool],
        *,
        fragile: bool,
    ) -> None:
        self._decode = decode
        self._skipped_ids = skipped
        self._is_open = is_open
        self._fragile = fragile
        self._window: list[int] = []
        self._read = self._closed = 0
        """How many ids of the window are read, and how many stand before the run that is still open."""
        self._known = ""

    def feed(self, ids: Sequence[int]) -> str:
        """Take the next ids and return the text that is now certain."""
        before = len(self._window)
        self._window += [id_ for id_ in ids if id_ not in self._skipped_ids]
        closed = (at for at in range(len(self._window), before, -1) if not self._is_open(self._window[at - 1]))
        self._closed = next(closed, self._closed)
        return self._emit(self._closed, hold=self._fragile)

    def finish(self) -> str:
        """Return what was still held back."""
        return self._emit(len(self._window), hold=False)

    def _emit(self, end: int, *, hold: bool) -> str:
        if end == self._read:
            return ""
        text = self._decode(self._window[:end])
        if hold and text.endswith(_REPLACEMENT):
            end, text = self._without_unfinished(end, text)
        piece = text[len(self._known) :] if end > self._read else ""
        if piece:
            start = self._read
            self._window = self._window[start:]
            self._closed, self._read = max(self._closed, end) - start, end - start
            self._known = self._decode(self._window[: self._read])
        return piece

    def _without_unfinished(self, end: int, text: str) -> tuple[int, str]:
        """Leave out the last tokens, in which a character has begun; none where it would have too many."""
        for shorter in range(end - 1, end - _LONGEST_CHARACTER, -1):
            if shorter <= self._read:
                return self._read, ""
            certain = self._decode(self._window[:shorter])
            if not certain.endswith(_REPLACEMENT):
                return shorter, certain
        return end, text


class TightDetokenizer:
    """Leaves out the spaces that some tokenizers put between two added tokens."""

    __slots__ = ("_added", "_follows", "_inner")

    def __init__(self, inner: Detokenizer, added: Mapping[int, str]) -> None:
        self._inner = inner
        self._added = added
        self._follows = False
        """Whether the last id was an added token."""

    def feed(self, ids: Sequence[int]) -> str:
        """Take the next ids and return the text that is now certain."""
        return "".join(self._piece(id_) for id_ in ids)

    def finish(self) -> str:
        """Return what was still held back."""
        return self._inner.finish()

    def _piece(self, id_: int) -> str:
        piece, content = self._inner.feed((id_,)), self._added.get(id_)
        tight = content is not None and self._follows and piece.strip() == content.strip()
        self._follows = content is not None
        return content if tight and content is not None else piece
