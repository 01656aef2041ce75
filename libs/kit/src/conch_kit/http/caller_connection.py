"""A caller's connection as far as the work on a request needs more of it than ASGI offers.

ASGI would take a task per request to learn that the caller has hung up; the connection tells it in a callback.
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


class NoticingProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which notices at once that a caller has hung up and hands itself to the application."""

    on_gone: Callable[[], None] | None = None

    @property
    def gone(self) -> bool:
        """Whether the connection is lost, or about to be closed."""
        return bool(self.transport.is_closing())

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever works for this caller."""
        super().connection_lost(exc)
        if self.on_gone is not None:
            self.on_gone()

    def on_headers_complete(self) -> None:
        """Let the application have the request, and this connection with it."""
        self.scope["extensions"] = {CONNECTION: {"port": self}}
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Pass the end of the body on, and go on reading: nobody asks for more, but a hang-up must be noticed."""
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()


def connection(scope: Scope) -> CallerConnection:
    """Return the connection that a request came on; it was served by a `NoticingProtocol`."""
    port: CallerConnection = scope["extensions"][CONNECTION]["port"]
    return port
