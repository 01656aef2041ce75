"""Moments as Kubernetes writes them."""

import time
from collections.abc import Callable
from datetime import UTC, datetime


def timestamp(clock: Callable[[], float] = time.time) -> str:
    """Return the time in whole seconds, as conditions have it: `2026-01-31T12:00:00Z`."""
    return _written(clock(), "seconds")


def micro_timestamp(clock: Callable[[], float] = time.time) -> str:
    """Return the time in microseconds, as Leases and Events have it: `2026-01-31T12:00:00.000001Z`."""
    return _written(clock(), "microseconds")


def _written(seconds: float, precision: str) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
