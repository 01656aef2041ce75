"""Where requests wait for a service whose processes are all away: the last one has ended, and another one is starting.

Who waits gets a turn to ask again, one each half second while some process is announced, the first in line first, since
what is announced may be dead. An answer of one that is announced, to whomever, gives all of them their turn; one that
drains, or has taken its record away, still answers what it has, and takes nothing new.

Nobody waits for a service that this gateway has never known, and of a model's requests no more wait than its queue
holds. What they keep in memory meanwhile has a bound, together with what waits for engines.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence

from conch_contracts.names import ModelId, WorkerUrl
from conch_contracts.records import Heartbeat, Route
from conch_gateway.placement.retry_times import spread_s
from conch_gateway.placement.waiting_room import WaitingRoom
from conch_gateway.placement.worker_choice import running

TURN_S = 0.5
"""How often one of those that wait may ask."""
NO_PROCESS_RETRY_S = 2.0
"""When a client is told to come again that found no process of a service, or one that broke down or was too slow."""


class PoolReturn:
    """Those that wait for the processes of one pool."""

    def __init__(
        self, name: str, known: Callable[[], bool], alive: Callable[[], Sequence[Heartbeat]], room: WaitingRoom
    ) -> None:
        """`known` tells whether there has ever been a process of this name, `alive` which are announced now."""
        self._name = name
        self._known = known
        self._alive = alive
        self._room = room
        self._line: deque[asyncio.Future[None]] = deque()
        self._waiting: Counter[ModelId] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self, route: Route, wait_s: float, size: int) -> bool:
        """Wait for a turn to ask, with so many bytes in memory.

        False: there is nothing to hope for, the line is full, or no turn came in time. Raises RateLimited where all
        that waits takes too much.
        """
        model = route.model_id
        if not self._known() or wait_s <= 0 or self._waiting[model] >= route.routing.queue_max:
            return False
        with self._room.taken(size, f"a {self._name}", _retry_after_s):
            return await self._turn(model, wait_s)

    def answered(self, process: WorkerUrl) -> None:
        """Note that this process has answered."""
        if self._line and any(beat.url == process for beat in running(self._alive())):
            while self._line:
                self._next()

    async def _turn(self, model: ModelId, wait_s: float) -> bool:
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

    def _next(self) -> None:
        turn = self._line.popleft()
        if not turn.done():
            turn.set_result(None)

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TURN_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._line and running(self._alive()):
            self._next()
        if self._line:
            self._set_timer()


def _retry_after_s() -> float:
    return spread_s(NO_PROCESS_RETRY_S)
