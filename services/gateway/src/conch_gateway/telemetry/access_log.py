"""One line per request, written by hand: the stdlib logger would cost more than validating the request.

Lines are written together after a moment, because each write wakes whoever reads them; that of a fault is written at
once. No line holds text of a prompt or an answer; what a client says about its request stands there within bounds, and
JSON escapes what a terminal would obey.
"""

import asyncio
import time
from collections.abc import Callable
from typing import BinaryIO

import orjson

from conch_gateway.http.exchange import Exchange
from conch_kit.json_bytes import json_bytes
from conch_kit.logs import iso_time

MAX_PATH_CHARS = 128
MAX_USER_CHARS = 128
MAX_FAULT_CHARS = 256
MAX_METADATA_BYTES = 1024
"""Metadata above this stays out of the log."""


WRITTEN_WITHIN_S = 0.05


class AccessLog:
    """Writes to one binary stream; None switches it off. Used in an event loop; `flush` writes what waits."""

    def __init__(self, stream: BinaryIO | None, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._stream = stream
        self._wall_clock = wall_clock
        self._waiting: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def flush(self) -> None:
        """Write the lines that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stream is not None and self._waiting:
            self._stream.write(b"".join(self._waiting))
            self._stream.flush()
            self._waiting = []

    def write(self, exchange: Exchange, *, duration_s: float) -> None:
        """Take the line of a request that has ended."""
        if self._stream is None:
            return
        line: dict[str, object] = {
            "time": iso_time(self._wall_clock()),
            "level": "INFO",
            "logger": "access",
            "message": "request",
            "method": exchange.method,
            "path": exchange.path[:MAX_PATH_CHARS],
            "status": exchange.status,
            "outcome": exchange.outcome,
            "model": exchange.model,
            "key": exchange.key,
            "ms": round(duration_s * 1000, 2),
            "prompt_tokens": exchange.prompt_tokens,
            "completion_tokens": exchange.completion_tokens,
            "request_id": exchange.request_id,
        }
        if exchange.audio_s:
            line["audio_s"] = round(exchange.audio_s, 2)
        if exchange.held_s is not None:
            line["held_ms"] = round(exchange.held_s * 1000, 2)
        if exchange.error_code is not None:
            line["code"] = exchange.error_code
        if exchange.fault is not None:
            line["error"] = exchange.fault[:MAX_FAULT_CHARS]
        if exchange.user is not None:
            line["user"] = exchange.user[:MAX_USER_CHARS]
        if exchange.metadata:
            metadata = json_bytes(exchange.metadata)
            line["metadata"] = orjson.Fragment(metadata) if len(metadata) <= MAX_METADATA_BYTES else None
        self._waiting.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        if exchange.status >= 500:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITTEN_WITHIN_S, self.flush)
