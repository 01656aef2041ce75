"""Logs as JSON lines on one stream, each with the id of the request that it belongs to.

Use the standard library: `log = logging.getLogger(__name__)`, one sentence as message, everything else in `extra`.
"""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

import orjson

request_id_var: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that the current task serves."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_QUIET = ("asyncio", "grpc", "grpc._cython.cygrpc")


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object; never fails on what it is given."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": iso_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request_id := request_id_var.get()) is not None:
            line["request_id"] = request_id
        line.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # a lone surrogate, or an integer over 64 bits
            return json.dumps(line, default=str)


def iso_time(seconds: float) -> str:
    """Return a moment since 1970 as a log writes it, in milliseconds: `2026-01-31T12:00:00.000+00:00`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def configure(level: str, *, stream: TextIO) -> None:
    """Send all logs of this process to the stream; libraries speak from WARNING on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
