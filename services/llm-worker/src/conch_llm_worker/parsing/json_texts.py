"""Reads JSON that models write: all that the standard allows, which is more than `orjson` reads.

Grammars allow numbers beyond every float and halves of surrogate pairs, so a demanded call may hold them.
"""

import json
import re

_HALF = re.compile("[\ud800-\udfff]")


def json_value(text: str) -> object:
    """Return the value of a JSON text, its numbers as floats; raise `ValueError` when it is none."""
    try:
        return json.loads(text, parse_int=float, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("The text is nested too deeply.") from None


def json_string(text: str) -> str:
    """Return what a JSON string says; half of a surrogate pair, which no text can hold, stays as it is written.

    Raises ValueError when the text is no JSON string.
    """
    found = json_value(text)
    if not isinstance(found, str):
        raise ValueError("The text is no JSON string.")
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", found)


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON.")
