"""Reads from the end of a process's log why it ended: the error that it logged last, else its last line.

Our services log JSON lines with the stack of an error in `exception`; the last line of a stack names the error. Triton
begins its errors with E and the date. Of other lines, the last that mentions an error
counts more than the very last one; what our services log below ERROR never counts.
"""

import json
import os
import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_LONGEST = 400
_SEVERE = frozenset({"ERROR", "CRITICAL"})
_TRITON_ERROR = re.compile(r"[EF]\d{4} ")
_HARMLESS = re.compile(r"CudaDriverHelper has not been initialized")
"""An error that tritonserver reports at each start on a machine without a GPU."""
_ERROR = re.compile(r"\b(error|fatal|failed|cannot|can't|could not)\b|\w(Error|Exception)\b", re.IGNORECASE)


def exit_cause(log: Path, since: int) -> str:
    """Return one line that says why a process ended, empty when it wrote nothing.

    `since`: how many bytes the log had when the process began; what stands before that is of another one.
    """
    try:
        lines = _tail(log, since)
    except OSError:
        return ""
    records = [_record(line) for line in lines]
    plain = [line for line, record in zip(lines, records, strict=True) if record is None]
    ranked = (
        [text for record in records if record is not None and (text := _logged_error(record))],
        [line for line in plain if _TRITON_ERROR.match(line) and not _HARMLESS.search(line)],
        [line for line in plain if _ERROR.search(line)],
        [line for line in plain if not _HARMLESS.search(line)],
    )
    return one_line(next((found[-1] for found in ranked if found), ""))


def one_line(text: str) -> str:
    """Return a text without line breaks, cut to a length that a terminal can show."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"


def _tail(log: Path, since: int) -> list[str]:
    """Return the last whole lines of a file from a position on, without empty ones."""
    with log.open("rb") as file:
        start = max(since, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
        file.seek(start)
        if start > since:
            file.readline()
        return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]


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
