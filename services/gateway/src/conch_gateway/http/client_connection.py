"""The client's connection, as far as the work on a request needs more of it than ASGI offers.

`server_protocol.py` implements it; the edge finds it among the scope's extensions.
"""

from typing import Protocol

from conch_kit.http.asgi import Scope, Send
from conch_kit.http.caller_connection import CONNECTION, CallerConnection


class ClientConnection(CallerConnection, Protocol):
    """One client connection with a request under way."""

    def abort(self) -> None:
        """Drop the connection with all that waits to be written."""

    def linger(self) -> None:
        """Let the answer to this request end the connection gently, since the body is not read to its end."""

    def close_delimited(self, send: Send) -> Send:
        """Return a `send` for a client of HTTP/1.0, which knows no chunks (RFC 9112, section 6.1).

        Where an answer has no length, the end of the connection is its end.
        """

    def push(self, data: bytes) -> bool:
        """Write a piece of the answer now; False, and nothing written, while the client's buffer is full.

        Only for an answer whose start went out without a length. An empty piece only asks.
        """


def client_connection(scope: Scope) -> ClientConnection:
    """Return the connection that a request came on; it was served by a `GuardedProtocol`."""
    port: ClientConnection = scope["extensions"][CONNECTION]["port"]
    return port
