"""The queue of one model: its engines, the slots that are taken of them, and the requests that wait for one.

Nobody waits in here: `admission.py` does, and takes what the queue grants.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field

from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine
from conch_gateway.placement.worker_choice import choose
from conch_kit.errors import RateLimited, Unavailable

NO_ENGINE_RETRY_S = 5.0
QUEUE_RETRY_S = 1.0
REST_S = 0.5
"""How long nobody is sent to an engine that could not take a request."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request asks of an engine."""

    sequences: int = 1
    """How many of its choices are worked on at once."""
    priority: int = 0
    """Of those who wait, the lower goes first."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One request in the queue; the future receives the engine it may use."""

    granted: asyncio.Future[Engine]
    without: frozenset[EngineAddress]
    claim: Claim
    arrived: float
    """When the request first asked: one that comes back has kept its place."""


@dataclass(slots=True)
class _Rest:
    """What is known of an engine that could not take a request."""

    timer: asyncio.TimerHandle | None
    """Until when nobody is sent there; None: it may be tried."""
    trying: bool = False
    """Whether somebody tries it."""


@dataclass(slots=True)
class ModelQueue:
    """Engines, slots taken and waiters of one model."""

    engines: tuple[Engine, ...] = ()
    taken: Counter[EngineAddress] = field(default_factory=Counter)
    waiters: deque[Waiter] = field(default_factory=deque)
    turn: int = 0
    wanted: bool = True
    """Whether the model is to have engines; else nobody waits for one to come."""
    lost_at: float | None = None
    """When the last engine vanished; None: there is one, or never was."""
    _resting: dict[EngineAddress, _Rest] = field(default_factory=dict)

    def apply(self, engines: tuple[Engine, ...], now: float, *, wanted: bool = True) -> None:
        """Take over what the registry holds; an engine that comes new to it has not refused anything."""
        self.wanted = wanted
        if engines:
            self.lost_at = None
        elif self.engines:
            self.lost_at = now
        self.engines = engines
        for address in self._resting.keys() - {engine.grpc for engine in engines}:
            self._stop_resting(address)
        self.serve()
        if not wanted and not engines:
            self._send_away()

    def refused(self, engine: Engine) -> None:
        """Let an engine rest that could not take a request."""
        self._stop_resting(engine.grpc)
        timer = asyncio.get_running_loop().call_later(REST_S, self._may_be_tried, engine.grpc)
        self._resting[engine.grpc] = _Rest(timer)

    def accepted(self, engine: Engine) -> None:
        """Note that an engine takes requests."""
        if engine.grpc in self._resting:
            self._stop_resting(engine.grpc)
            self.serve()

    def _stop_resting(self, address: EngineAddress) -> None:
        rest = self._resting.pop(address, None)
        if rest is not None and rest.timer is not None:
            rest.timer.cancel()

    def _may_be_tried(self, address: EngineAddress) -> None:
        self._resting[address] = _Rest(None)
        self.serve()

    def _rests(self, engine: Engine) -> bool:
        rest = self._resting.get(engine.grpc)
        return rest is not None and (rest.timer is not None or rest.trying)

    def free_engine(self, without: frozenset[EngineAddress], sequences: int) -> Engine | None:
        """Return the engine with the smallest share of its slots taken, or None when none has enough free."""
        free = [
            engine
            for engine in self.engines
            if engine.grpc not in without
            and not self._rests(engine)
            and self.taken[engine.grpc] + slots_for(engine, sequences) <= slots(engine)
        ]
        if not free:
            return None
        if len(free) == 1:
            return free[0]
        self.turn += 1
        loads = [self.taken[engine.grpc] / slots(engine) for engine in free]
        return free[choose(loads, start=self.turn % len(free))]

    def take(self, engine: Engine, sequences: int) -> None:
        """Take the slots for so many sequences."""
        self.taken[engine.grpc] += slots_for(engine, sequences)
        rest = self._resting.get(engine.grpc)
        if rest is not None:
            rest.trying = True

    def give_back(self, engine: Engine, sequences: int) -> None:
        """Free the slots again and let the next waiters have them."""
        self.taken[engine.grpc] -= slots_for(engine, sequences)
        if self.taken[engine.grpc] <= 0:
            del self.taken[engine.grpc]
        rest = self._resting.get(engine.grpc)
        if rest is not None and rest.trying:
            self.refused(engine)  # whoever tried it has not learnt anything
        self.serve()

    def end(self) -> None:
        """Send those away who wait: the model is not served any more. Those who have a slot keep it."""
        self.apply((), 0.0)
        self._send_away()

    def _send_away(self) -> None:
        for waiter in self.waiters:
            if not waiter.granted.done():
                waiter.granted.set_exception(not_ready())
        self.waiters.clear()

    def join(self, waiter: Waiter) -> None:
        """Put a waiter behind all that are as urgent and came before it."""
        place, rank = len(self.waiters), _rank(waiter)
        while place and _rank(self.waiters[place - 1]) > rank:
            place -= 1
        self.waiters.insert(place, waiter)

    def make_room_for(self, waiter: Waiter) -> bool:
        """Send the last of a full queue away where it is less urgent than a newcomer; return whether it was."""
        if not self.waiters or self.waiters[-1].claim.priority <= waiter.claim.priority:
            return False
        last = self.waiters.pop()
        if not last.granted.done():
            last.granted.set_exception(queue_full())
        return True

    def serve(self) -> None:
        """Hand free slots to waiters, the first in the queue first."""
        for waiter in list(self.waiters):
            engine = self.free_engine(waiter.without, waiter.claim.sequences)
            if engine is None:
                if not waiter.without:
                    return
                continue
            self.waiters.remove(waiter)
            if not waiter.granted.done():
                self.take(engine, waiter.claim.sequences)
                waiter.granted.set_result(engine)


def slots(engine: Engine) -> int:
    """Return how many sequences an engine works on at once."""
    return max(1, engine.slots)


def slots_for(engine: Engine, sequences: int) -> int:
    """Return how many slots so many sequences take: never more than there are."""
    return min(sequences, slots(engine))


def _rank(waiter: Waiter) -> tuple[int, float]:
    return waiter.claim.priority, waiter.arrived


def queue_full() -> RateLimited:
    """Return the error for a request that finds no room among those that wait, or has lost it to a more urgent one."""
    return RateLimited("The queue of this model is full.", code="rate_limit_exceeded", retry_after_s=QUEUE_RETRY_S)


def not_ready() -> Unavailable:
    """Return the error for a model that is known but has nothing to run on."""
    return Unavailable("No engine of this model is ready.", code="model_not_ready", retry_after_s=NO_ENGINE_RETRY_S)
