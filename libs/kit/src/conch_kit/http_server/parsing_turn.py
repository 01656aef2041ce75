"""What all connections of a server parse of bodies in one turn of the event loop."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from conch_kit.http_server.limits import WORK_A_TURN


class ParsingTurn:
    """Counts work, of which a turn has so much; who has more to do waits, and they go on one after another.

    A piece of work takes about 2 us: a call of the parser, a piece of a body that it gives back, a page of bytes.
    """

    __slots__ = ("_left", "_loop", "_renewing", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = WORK_A_TURN
        self._renewing = False
        self._waiting: OrderedDict[Callable[[], None], None] = OrderedDict()

    @property
    def spent(self) -> bool:
        """Whether the rest has to wait."""
        return self._left <= 0

    def spend(self, work: int) -> None:
        """Count work that was done."""
        self._left -= work
        # Not before half is spent: a request in one piece then costs its turn nothing but this sum.
        if self._left < WORK_A_TURN // 2 and not self._renewing:
            self._renewing = True
            self._loop.call_soon(self._renew)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have this called when it is its turn, once; for whoever finds the turn spent."""
        self._waiting[go_on] = None

    def _renew(self) -> None:
        self._renewing, self._left = False, WORK_A_TURN
        while self._waiting and not self.spent:
            go_on, _ = self._waiting.popitem(last=False)
            go_on()
