"""A client that does not wait for the answer to its request: it is never gone, and what it is sent goes nowhere."""

from collections.abc import Callable

from conch_kit.http.asgi import Message


class AbsentClient:
    """Its connection."""

    def __init__(self) -> None:
        self.on_gone: Callable[[], None] | None = None
        self.gone = False

    def abort(self) -> None:
        """Do nothing."""

    def allow_body(self, seconds: float) -> None:
        """Do nothing."""

    def push(self, data: bytes) -> bool:
        """Take all."""
        return True


async def send_nowhere(message: Message) -> None:
    """Send a message to nobody."""
