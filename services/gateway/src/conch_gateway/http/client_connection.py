"""The client's connection, as far as the work on a request needs more of it than ASGI offers.

`conch_kit.http_server` implements it; the edge finds it among the scope's extensions.
"""

from typing import Protocol

from conch_kit.http.asgi import Scope
from conch_kit.http.caller_connection import CONNECTION, CallerConnection


class ClientConnection(CallerConnection, Protocol):
    """One client connection with a request under way."""

    def abort(self) -> None:
        """Drop the connection with all that waits to be written."""

    def allow_body(self, seconds: float) -> None:
        """Let the body that comes take so long, as long as it does not stand still for as long as others may take."""

    def push(self, data: bytes) -> bool:
        """Write a piece of the answer now; False, and nothing written, while the client's buffer is full.

        Only for an answer whose start went out without a length. An empty piece only asks.
        """


def client_connection(scope: Scope) -> ClientConnection:
    """Return the connection that a request came on."""
    port: ClientConnection = scope["extensions"][CONNECTION]["port"]
    return port
