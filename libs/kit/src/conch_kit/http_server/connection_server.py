"""The server, as its connections see it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from conch_kit.http_server.limits import ConnectionLimits
from conch_kit.http_server.parsing_turn import ParsingTurn
from conch_kit.http_server.refusal import RefusalForm
from conch_kit.http_server.request import Request

if TYPE_CHECKING:
    from conch_kit.http_server.connection import HttpConnection


class ConnectionServer(Protocol):
    """What all connections of a server share."""

    limits: ConnectionLimits
    refusal_form: RefusalForm
    turn: ParsingTurn
    closing: bool
    """Whether the request under way is the last one of its connection."""
    now: Callable[[], float]

    def opened(self, connection: "HttpConnection") -> None:
        """Hear of a new connection."""

    def lost(self, connection: "HttpConnection") -> None:
        """Hear that a connection is no more."""

    def start(self, request: Request) -> None:
        """Have the application answer a request, in a task of its own."""
