"""The connection of a request's caller, which says in a callback that the caller has hung up.

With ASGI alone that would take a task for each request, which waits for `http.disconnect`.
"""

from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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


class DisconnectAwareProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which sees at once that a caller has hung up, and stands in the request's ASGI scope."""

    on_gone: Callable[[], None] | None = None

    @property
    def gone(self) -> bool:
        """Whether the connection is lost, or about to be closed."""
        return bool(self.transport.is_closing())

    def connection_lost(self, exc: Exception | None) -> None:
        """Call back whoever works for this caller."""
        super().connection_lost(exc)
        if self.on_gone is not None:
            self.on_gone()

    def on_headers_complete(self) -> None:
        """Give the request to the application, with this connection in its scope."""
        self.scope["extensions"] = {CONNECTION: {"port": self}}
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Pass the end of the body on, and go on reading: only a socket that is read shows a hang-up."""
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()


def connection(scope: Scope) -> CallerConnection:
    """Return the connection that a request came on; it was served by a `DisconnectAwareProtocol`."""
    port: CallerConnection = scope["extensions"][CONNECTION]["port"]
    return port
