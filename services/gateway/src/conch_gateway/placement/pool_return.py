"""Where requests wait for a service whose processes are all away: the last one has ended, and another one is starting.

Who waits gets a turn to ask again, one each half second while some process is announced, the first in line first, since
what is announced may be dead. An answer to any of them gives all of them their turn.

Nobody waits for a service that this gateway has never known, and of a model's requests no more wait than its queue
holds.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from conch_contracts.names import ModelId
from conch_contracts.records import Route

TURN_S = 0.5
"""How often one of those that wait may ask."""


class PoolReturn:
    """Those that wait for the processes of one pool."""

    def __init__(self, known: Callable[[], bool], running: Callable[[], bool]) -> None:
        """`known` tells whether there has ever been a process, `running` whether one is announced now."""
        self._known = known
        self._running = running
        self._line: deque[asyncio.Future[None]] = deque()
        self._waiting: Counter[ModelId] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self, route: Route, wait_s: float) -> bool:
        """Wait for a turn to ask; False: there is nothing to hope for, no room, or none came in time."""
        model = route.model_id
        if not self._known() or wait_s <= 0 or self._waiting[model] >= route.routing.queue_max:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[model] += 1
        self._line.append(turn)
        self._set_timer()
        try:
            async with asyncio.timeout(wait_s):
                await turn
        except TimeoutError:
            return False
        finally:
            self._waiting[model] -= 1
            if turn in self._line:
                self._line.remove(turn)
        return True

    def answered(self) -> None:
        """Note that one of the processes has answered."""
        while self._line:
            self._next()

    def _next(self) -> None:
        turn = self._line.popleft()
        if not turn.done():
            turn.set_result(None)

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TURN_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._line and self._running():
            self._next()
        if self._line:
            self._set_timer()
