"""Reads from the end of a process's log why it ended: the error that it logged last, else its last line.

Our services log JSON lines with the stack of an error in `exception`; the last line of a stack names the error. Triton
begins its errors with E and the date. Of all other lines one that speaks of an error says more than the last one, and
what our services log in passing says nothing.
"""

import json
import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_LONGEST = 400
_SEVERE = frozenset({"ERROR", "CRITICAL"})
_TRITON_ERROR = re.compile(r"[EF]\d{4} ")
_ERROR = re.compile(r"\b(error|fatal|failed|cannot|can't|could not)\b|\w(Error|Exception)\b", re.IGNORECASE)


def last_words(log: Path) -> str:
    """Return one line that says why the process ended, empty when it wrote nothing."""
    try:
        lines = [line for line in log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    records = [_record(line) for line in lines]
    plain = [line for line, record in zip(lines, records, strict=True) if record is None]
    ranked = (
        [text for record in records if record is not None and (text := _logged_error(record))],
        [line for line in plain if _TRITON_ERROR.match(line)],
        [line for line in plain if _ERROR.search(line)],
        plain,
    )
    return one_line(next((found[-1] for found in ranked if found), ""))


def one_line(text: str) -> str:
    """Return a text without line breaks, cut to a length that a terminal can show."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"


def _record(line: str) -> dict[str, object] | None:
    """Return what one of our services logged; None for any other line."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "level" in record else None


def _logged_error(record: dict[str, object]) -> str | None:
    if record["level"] not in _SEVERE:
        return None
    stack = str(record.get("exception") or "").strip().splitlines()
    return f"{record.get('message', '')} {stack[-1] if stack else ''}".strip()
