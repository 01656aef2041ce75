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
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
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


def configure(level: str, *, stream: TextIO) -> None:
    """Send all logs of this process to the stream; libraries speak from WARNING on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
