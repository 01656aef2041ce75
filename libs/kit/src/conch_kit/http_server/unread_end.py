"""The end of what is written to a caller, while it waits for the caller to read it."""

import asyncio
from math import inf


class UnreadEnd:
    """Drops a connection of whose last answer, whole or not, nothing is read in a while.

    All of it may wait in the buffer, and a connection that is closed stays open until that is empty.
    """

    __slots__ = ("_seconds", "_size", "_transport", "due")

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self.due = inf
        """When to look whether some of it was read; inf: nothing is unread."""
        self._transport = transport
        self._seconds = seconds
        self._size = 0

    def watch(self, now: float) -> None:
        """Begin, behind an answer."""
        self._size = self._transport.get_write_buffer_size()
        self.due = now + self._seconds if self._size else inf

    def close(self, now: float) -> None:
        """Close the connection behind what waits, and watch that."""
        self._transport.close()
        self.watch(now)

    def check(self, now: float, *, answering: bool) -> None:
        """Drop the connection if nothing was read meanwhile, unless an answer is under way, which is watched."""
        if answering and not self._transport.is_closing():
            self.due = inf
        elif self._transport.get_write_buffer_size() >= self._size:
            self._transport.abort()
        else:
            self.watch(now)
