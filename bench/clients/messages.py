"""What the benchmark and its load clients send each other: one JSON object a line, a command and its answer."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import orjson

Command = Literal["load", "open", "count", "close"]


@dataclass(frozen=True, slots=True)
class Load:
    """So many requests at once, each slot beginning the next one when its last has ended."""

    streams: int
    max_tokens: int = 1
    seconds: float = 0.0
    """No request begins later than this; those that run are finished and counted."""
    requests: int = 0
    """At least so many requests, whatever the time."""
    stream: bool = True


@dataclass(slots=True)
class LoadResult:
    """What one load did."""

    requests: int = 0
    tokens: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of the client itself."""
    first_token_s: list[float] = field(default_factory=list)
    request_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StreamCount:
    """How many events the open streams have brought so far, and in how many reads."""

    events: int
    reads: int
    open_streams: int
    cpu_s: float
    errors: list[str] = field(default_factory=list)


def encode(command: Command, load: Load | None = None) -> bytes:
    """Make the line that asks a client for something."""
    return orjson.dumps({"command": command, "load": asdict(load) if load else None}) + b"\n"


def decode(line: bytes) -> tuple[Command, Load | None]:
    """Read what a client is asked for."""
    raw: dict[str, Any] = orjson.loads(line)
    return raw["command"], Load(**raw["load"]) if raw["load"] else None
