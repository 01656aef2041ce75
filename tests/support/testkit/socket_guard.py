"""Records every connection that this process makes and every name that it looks up, whoever does it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Reached:
    """What was reached while a test looked."""

    connects: list[tuple[str, int]] = field(default_factory=list)
    """Host and port of each connection that was begun."""
    lookups: list[str] = field(default_factory=list)
    """Hosts that the system's resolver was asked for."""


class SocketGuard:
    """An audit hook of the interpreter, which sees what no patch of a library would; there is one in a process."""

    def __init__(self) -> None:
        self._looking: Reached | None = None
        sys.addaudithook(self._hear)

    @contextmanager
    def looking(self) -> Iterator[Reached]:
        """Give what is reached meanwhile."""
        self._looking = reached = Reached()
        try:
            yield reached
        finally:
            self._looking = None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._looking is None:
            return
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            self._looking.connects.append(arguments[1][:2])
        elif event == "socket.getaddrinfo":
            self._looking.lookups.append(str(arguments[0]))
