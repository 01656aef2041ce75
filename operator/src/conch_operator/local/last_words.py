"""Reads from the end of a process's log why it ended: the error that it logged last, else its last line.

Our services log JSON lines with the stack of an error in `exception`; the last line of a stack names the error.
"""

import json
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_LONGEST = 400
_SEVERE = frozenset({"ERROR", "CRITICAL"})


def last_words(log: Path) -> str:
    """Return one line that says why the process ended, empty when it wrote nothing."""
    try:
        lines = [line for line in log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [text for line in lines[-20:] if (text := _logged_error(line))]
    return one_line((errors or lines or [""])[-1])


def one_line(text: str) -> str:
    """Return a text without line breaks, cut to a length that a terminal can show."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"


def _logged_error(line: str) -> str | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("level") not in _SEVERE:
        return None
    stack = str(record.get("exception") or "").strip().splitlines()
    return f"{record.get('message', '')} {stack[-1] if stack else ''}".strip()
