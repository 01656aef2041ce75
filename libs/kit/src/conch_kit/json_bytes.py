"""Writes JSON fast, and numbers of any size: JSON has no largest integer, and models write what they like."""

import json
from collections.abc import Callable

import orjson


def json_bytes(value: object, default: Callable[[object], object] | None = None) -> bytes:
    """Return a value as JSON; `default` turns what JSON has no form for into something that it has.

    Keys may be integers. Numbers must be finite: callers have refused others. What orjson cannot write, integers beyond
    64 bits, takes several times as long.
    Raises TypeError or ValueError for what is no JSON.
    """
    try:
        return orjson.dumps(value, default=default, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=default, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
