"""What a client says about how long its request waits for an engine."""

import re
from collections.abc import Mapping

from conch_contracts.headers import MAX_WAIT
from conch_kit.errors import InvalidRequest

_HEADER = MAX_WAIT.encode()
_SECONDS = re.compile(rb"[0-9]{1,6}(?:\.[0-9]{1,3})?")
_SHOWN_CHARS = 40


def max_wait_s(headers: Mapping[bytes, bytes]) -> float | None:
    """Return the seconds of the header; None without it. Raises InvalidRequest."""
    said = headers.get(_HEADER)
    if said is None:
        return None
    if _SECONDS.fullmatch(said) is None:
        shown = said.decode("latin-1")[:_SHOWN_CHARS]
        raise InvalidRequest(
            f"Expected seconds from 0 to 999999 in the header '{MAX_WAIT}', found '{shown}'.",
            param=MAX_WAIT,
            code="invalid_value",
        )
    return float(said)
