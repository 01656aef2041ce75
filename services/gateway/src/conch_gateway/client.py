"""The client's connection, as far as the work on a request needs more of it than ASGI offers.

`http_protocol.py` is it; the edge finds it among the scope's extensions under `CONNECTION`.
"""

from collections.abc import Callable
from typing import Protocol

CONNECTION = "conch.connection"
"""Scope extension whose `port` is a `ClientConnection`."""


class ClientConnection(Protocol):
    """One client connection with a request under way."""

    on_gone: Callable[[], None] | None
    """Called once when the connection is lost; ASGI would take a task per request to learn that."""

    @property
    def gone(self) -> bool:
        """Whether the connection is lost, or about to be closed."""

    def abort(self) -> None:
        """Drop the connection with all that waits to be written."""

    def push(self, data: bytes) -> bool:
        """Write a piece of a chunked answer now; False, and nothing written, while the client's buffer is full.

        Only for an answer whose start went out without a length. An empty piece only asks.
        """
