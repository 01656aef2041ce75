"""Offers of another protocol, which a server may pass over: the parser would not read on behind them."""

import re

_UPGRADE = re.compile(rb"(?<=\r\n)upgrade:[^\r\n]*\r\n", re.IGNORECASE)


def without_upgrade(data: bytes) -> bytes:
    """Return the beginning of a request without its offer."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"", head + b"\r\n")[:-2] + end + rest
