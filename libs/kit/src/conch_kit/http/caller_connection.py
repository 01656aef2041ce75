"""The connection of a request's caller, which says in a callback that the caller has hung up.

With ASGI alone that would take a task for each request, which waits for `http.disconnect`.
"""

from collections.abc import Callable
from typing import Protocol

from conch_kit.http.asgi import Scope

CONNECTION = "conch.connection"
"""Scope extension whose `port` is the connection."""


class CallerConnection(Protocol):
    """One connection with a request under way."""

    on_gone: Callable[[], None] | None
    """Called once when the connection is lost."""

    @property
    def gone(self) -> bool:
        """Whether the connection is lost, or about to be closed."""


class DetachableConnection(CallerConnection, Protocol):
    """A connection that may go on without its HTTP server."""

    def detach(self) -> int:
        """Leave the connection to whoever gets the descriptor that is returned; it is open and must be closed."""


def connection(scope: Scope) -> DetachableConnection:
    """Return the connection that a request came on."""
    port: DetachableConnection = scope["extensions"][CONNECTION]["port"]
    return port
