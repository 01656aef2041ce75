"""Refuses regular expressions whose repetition is out of proportion, or ambiguous. Pure.

`(a+)+` matches what `a+` matches, in exponentially many ways: engines that try one way after the other never end, and
others build automata without bounds. An expression is judged by what stands where two rounds of a repetition meet.
What cannot be read here is left to the compiler, which knows the whole syntax.
"""

from dataclasses import dataclass

from conch_guidance.errors import UnusableGrammar

MAX_REPEAT = 10_000
MAX_GROUPS = 100
_MANY = 10
"""Rounds from which on ambiguity matters."""
_ASCII = 128
_OTHER = 1 << _ASCII
_ALL = (1 << (_ASCII + 1)) - 1


def inspect_regex(text: str) -> None:
    """Look at a regular expression; raises UnusableGrammar."""
    try:
        _Reader(text).alternatives(depth=0)
    except _Unreadable:
        return


class _Unreadable(Exception):
    """Something that this reader does not know."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """What a part of an expression begins and ends with; sets of characters are bit masks."""

    nullable: bool = True
    first: int = 0
    last: int = 0
    loop_first: int = 0
    """What a repetition at the beginning consists of."""
    loop_last: int = 0
    repeats: int = 1
    """How often its innermost part may be repeated."""

    def then(self, other: "_Piece") -> "_Piece":
        return _Piece(
            nullable=self.nullable and other.nullable,
            first=self.first | (other.first if self.nullable else 0),
            last=other.last | (self.last if other.nullable else 0),
            loop_first=self.loop_first | (other.loop_first if self.nullable else 0),
            loop_last=other.loop_last | (self.loop_last if other.nullable else 0),
            repeats=max(self.repeats, other.repeats),
        )

    def either(self, other: "_Piece") -> "_Piece":
        return _Piece(
            nullable=self.nullable or other.nullable,
            first=self.first | other.first,
            last=self.last | other.last,
            loop_first=self.loop_first | other.loop_first,
            loop_last=self.loop_last | other.loop_last,
            repeats=max(self.repeats, other.repeats),
        )

    def repeated(self, least: int, most: int | None) -> "_Piece":
        """Return this piece many times over; raises UnusableGrammar where nobody could tell the rounds apart."""
        repeats = self.repeats * max(1, least if most is None else most)
        if repeats > MAX_REPEAT:
            raise UnusableGrammar(f"it repeats a part more than {MAX_REPEAT} times")
        if most is not None and most < _MANY:
            return _Piece(self.nullable or not least, self.first, self.last, self.loop_first, self.loop_last, repeats)
        if self.loop_last & self.first or self.loop_first & self.last:
            raise UnusableGrammar("a repetition in it can be split into rounds in many ways, as in (a+)+ or (.*a)*")
        return _Piece(
            self.nullable or not least, self.first, self.last, self.first | self.last, self.first | self.last, repeats
        )


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def alternatives(self, *, depth: int) -> _Piece:
        """Read up to the end or the group's bracket."""
        if depth > MAX_GROUPS:
            raise UnusableGrammar(f"its groups are nested deeper than {MAX_GROUPS}")
        found = self._sequence(depth)
        while self._take("|"):
            found = found.either(self._sequence(depth))
        if depth == 0 and self._at < len(self._text):
            raise _Unreadable
        return found

    def _sequence(self, depth: int) -> _Piece:
        found = _Piece()
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            found = found.then(self._quantified(self._atom(depth)))
        return found

    def _atom(self, depth: int) -> _Piece:
        char = self._next()
        if char == "(":
            self._group_head()
            inner = self.alternatives(depth=depth + 1)
            if not self._take(")"):
                raise _Unreadable
            return inner
        if char in "^$":
            return _Piece()
        if char == ".":
            return _chars(_ALL & ~_bit("\n"))
        if char == "[":
            return _chars(self._class())
        if char == "\\":
            return self._escape_piece()
        return _chars(_bit(char))

    def _quantified(self, atom: _Piece) -> _Piece:
        while self._at < len(self._text):
            bounds = self._bounds()
            if bounds is None:
                break
            self._take("?")
            atom = atom.repeated(*bounds)
        return atom

    def _bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._text[self._at])
        if simple is not None:
            self._at += 1
            return simple
        if self._text[self._at] != "{":
            return None
        inner, closed, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = (part.strip() for part in inner.partition(","))
        if not closed or not least.isdecimal() or len(inner) > 40 or not (most.isdecimal() or not most):
            raise _Unreadable
        self._at += len(inner) + 2
        return int(least), int(most) if most else None if comma else int(least)

    def _group_head(self) -> None:
        if not self._take("?"):
            return
        head = self._text[self._at : self._at + 2]
        if head[:1] == ":":
            self._at += 1
        elif head == "P<" or (head[:1] == "<" and head not in ("<=", "<!")):
            end = self._text.find(">", self._at)
            if end < 0:
                raise _Unreadable
            self._at = end + 1
        else:
            raise _Unreadable  # flags, and looking around

    def _class(self) -> int:
        negated = self._take("^")
        found, first = 0, True
        while first or self._text[self._at : self._at + 1] != "]":
            first = False
            char = self._next()
            if char == "[" or self._text[self._at - 1 : self._at + 1] in ("&&", "--", "~~"):
                raise _Unreadable
            low = self._escape() if char == "\\" else _bit(char)
            following = self._text[self._at : self._at + 2]
            if len(following) == 2 and following[0] == "-" and following[1] != "]":
                self._at += 1
                char = self._next()
                high = self._escape() if char == "\\" else _bit(char)
                low = (2 * high - low) if high >= low else _ALL
            found |= low
        self._at += 1
        return _ALL & ~found if negated else found

    def _escape_piece(self) -> _Piece:
        if self._text[self._at : self._at + 1] in ("b", "B", "A", "z"):
            self._at += 1
            return _Piece()
        return _chars(self._escape())

    def _escape(self) -> int:
        char = self._next()
        known = _CLASSES.get(char.lower())
        if known is not None:
            return known if char.islower() else _ALL & ~known | _OTHER
        if char in "ntrfv":
            return _bit({"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}[char])
        if char.isalnum():
            raise _Unreadable  # by code, by property, or back to a group
        return _bit(char)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _Unreadable
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, char: str) -> bool:
        found = self._text[self._at : self._at + 1] == char
        self._at += found
        return found


def _bit(char: str) -> int:
    return 1 << min(ord(char), _ASCII)


def _set(chars: str) -> int:
    return sum(1 << ord(char) for char in set(chars))


def _chars(mask: int) -> _Piece:
    return _Piece(nullable=False, first=mask, last=mask)


_CLASSES = {
    "d": _set("0123456789"),
    "s": _set(" \t\n\r\f\v"),
    "w": _set("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") | _OTHER,
}
