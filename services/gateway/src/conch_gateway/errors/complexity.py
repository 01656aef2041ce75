"""How much JSON may hold, in a body as in the texts that stand in one; pure.

A parser holds the interpreter until it has read all of it, so the event loop stands still meanwhile. What stands in
texts costs it next to nothing and does not count.
"""

from conch_kit.errors import InvalidRequest

MAX_VALUES = 1_200_000
"""More than any context has token ids; each takes a parser some 40 ns."""
MAX_TEXTS = 100_000
"""Names count too, and cost most: 350 ns. A conversation of 4096 turns with thoughts and calls has some 65,000."""
MAX_CONTAINERS = 50_000
"""Objects and lists, into each of which somebody must look."""

LONG = 256 * 1024
"""Bytes from which on it is worth a try that there are few of a character: most of a body is pictures then, or ids."""
_FEW = 1000


def check_complexity(data: bytes, param: str | None = None) -> None:
    """Raise InvalidRequest for JSON that would hold the interpreter for a tenth of a second."""
    if len(data) <= MAX_CONTAINERS or not _is_complex(data, count(data, b'"') // 2):
        return
    # Without what is escaped, every second piece between quotes is a text.
    pieces = data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', 2 * MAX_TEXTS + 2)
    if _is_complex(b"".join(pieces[::2]), len(pieces) // 2):
        most = f"{MAX_TEXTS} texts and names, {MAX_CONTAINERS} objects and lists, and {MAX_VALUES} values"
        where = "The body" if param is None else f"'{param}'"
        message = f"{where} holds too much: expected at most {most}. Send less at once."
        raise InvalidRequest(message, param=param, code="too_complex")


def count(data: bytes, signs: bytes) -> int:
    """Return how many of these characters there are; to leave them out is faster than to count each of many."""
    found = count_few(data, signs) if len(data) > LONG else None
    return len(data) - len(data.translate(None, signs)) if found is None else found


def count_few(data: bytes, signs: bytes) -> int | None:
    """Return how many of these characters there are, None for more than a few.

    A search goes over the base64 of a picture, which has none of them, at ten times the speed of all that looks at
    each character.
    """
    found = 0
    for sign in signs:
        at = data.find(sign)
        while at >= 0:
            found += 1
            if found > _FEW:
                return None
            at = data.find(sign, at + 1)
    return found


def _is_complex(data: bytes, texts: int) -> bool:
    return texts > MAX_TEXTS or count(data, b"[{") > MAX_CONTAINERS or count(data, b",") > MAX_VALUES
