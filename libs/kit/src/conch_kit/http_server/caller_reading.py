"""Whether a caller's bytes are read, and how many of them for nothing."""

import asyncio
import select
from math import inf

from conch_kit.http_server.limits import LINGER_BYTES, LONGEST_LINGER_S, PAGE_BYTES
from conch_kit.http_server.parsing_turn import ParsingTurn

_READ_BYTES = 256 * 1024
"""What comes at once of a caller that has sent more."""
HANG_UP_LOOK_S = 0.25
"""How often a caller that is not read is looked at."""


class CallerReading:
    """Stops to read a caller and goes on; sees meanwhile that it hangs up, which else only a socket that is read shows.

    The end of a caller that has sent more than the socket's buffer holds does not come here until that is read.
    """

    __slots__ = ("_lingers_until", "_more", "_transport", "_turn", "due", "left_to_discard")

    def __init__(self, transport: asyncio.Transport, turn: ParsingTurn) -> None:
        self.due = inf
        """When to look whether the caller has hung up; inf: it is read."""
        self.left_to_discard = LINGER_BYTES
        """How much more is read that nobody will see."""
        self._lingers_until, self._more = 0.0, False
        self._transport = transport
        self._turn = turn

    def pause(self, now: float) -> None:
        """Read no further."""
        if self.due == inf and not self._transport.is_closing():
            self.due = now + HANG_UP_LOOK_S
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self.due < inf and not self._transport.is_closing():
            self.due = inf
            self._transport.resume_reading()

    def check(self, now: float) -> None:
        """Close the connection if its caller has hung up, as it is closed when the end is read."""
        if self._transport.is_closing():
            self.due = inf
            return
        self.due = now + HANG_UP_LOOK_S
        look = select.poll()
        look.register(self._transport.get_extra_info("socket"), select.POLLRDHUP)
        if look.poll(0):
            self._transport.close()

    def linger(self, now: float) -> None:
        """Begin to read what nobody will see."""
        self._lingers_until = now + LONGEST_LINGER_S
        self._more = False

    def lingers(self, now: float) -> bool:
        """Tell whether more has come since the last look, and may come."""
        more, self._more = self._more, False
        return more and now < self._lingers_until

    def discard(self, size: int) -> None:
        """Close the connection if so many bytes more for nobody are too many; read no more in a turn that is spent."""
        self._more = True
        self.left_to_discard -= size
        self._turn.spend(1 + size // PAGE_BYTES)
        if self.left_to_discard < 0:
            self._transport.close()
        elif self._turn.spent and self.due == inf and not self._transport.is_closing():
            self._transport.pause_reading()
            self._turn.wait(self._discard_on)

    def _discard_on(self) -> None:
        if self.due == inf and not self._transport.is_closing():
            # Counted before it comes too: else all who wait would be read in the same turn.
            self._turn.spend(_READ_BYTES // PAGE_BYTES)
            self._transport.resume_reading()
