"""Who may start now, and on which engine: one bounded queue per model, by priority and then first come, first served.

An engine works on as many sequences at once as it has slots; a request takes one for each of its choices, and an engine
as a whole when it has more of them. Whoever finds none free waits. A full queue refuses, or sends
its last away for a more urgent one; it gives up after the model's waiting time, and forgets a waiter that is cancelled.

An engine that could not take a request rests: for a moment nobody is sent to it, then one request at a time tries it,
until it has accepted one. When the last engine of a model has vanished from the registry, requests wait for the next
one as long as they may wait at all, counted from then; a model that has had none for longer, or that is scaled to 0
replicas, is not ready.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Engine, RoutingPolicy
from conch_gateway.placement.worker_choice import choose
from conch_kit.errors import RateLimited, Unavailable
from conch_kit.registry.snapshot import Snapshot

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


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """Slots of one engine that are taken until the context ends."""

    queue: ModelQueue
    engine: Engine
    sequences: int

    def __enter__(self) -> Engine:
        return self.engine

    def refused(self) -> None:
        """Tell that the engine could not take the request."""
        self.queue.refused(self.engine)

    def accepted(self) -> None:
        """Tell that the engine has begun to answer."""
        self.queue.accepted(self.engine)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.queue.give_back(self.engine, self.sequences)


def slots(engine: Engine) -> int:
    """Return how many sequences an engine works on at once."""
    return max(1, engine.slots)


def slots_for(engine: Engine, sequences: int) -> int:
    """Return how many slots so many sequences take: never more than there are."""
    return min(sequences, slots(engine))


class Admission:
    """All queues of one gateway."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queues: dict[ModelId, ModelQueue] = {}

    def apply(self, snapshot: Snapshot) -> None:
        """Take over the engines of a new snapshot; new slots go to waiters."""
        for model in self._queues.keys() - snapshot.engines.keys():
            self._queues.pop(model).end()
        for model, engines in snapshot.engines.items():
            route = snapshot.routes.get(model)
            wanted = route is None or route.engines_wanted
            self._queues.setdefault(model, ModelQueue()).apply(engines, self._clock(), wanted=wanted)

    def waiting(self) -> Mapping[ModelId, int]:
        """Return how many requests wait per model."""
        return {model: len(queue.waiters) for model, queue in self._queues.items()}

    async def slot(
        self,
        model: ModelId,
        policy: RoutingPolicy,
        claim: Claim = Claim(),
        *,
        without: frozenset[EngineAddress] = frozenset(),
        arrived: float | None = None,
        wait_s: float | None = None,
    ) -> "HeldSlots":
        """Return taken slots of one engine, as a context that gives them back.

        The engines of `without` are given only where there are no others. A request that asks again says when it
        `arrived`, and how long it may still wait.

        Raises Unavailable when no engine can serve, or none had a free slot in time, and RateLimited when the queue
        is full.
        """
        queue = self._queues.get(model)
        if queue is None or not self._may_hope(queue, policy):
            raise not_ready()
        if without.issuperset(engine.grpc for engine in queue.engines):
            without = frozenset()
        engine = queue.free_engine(without, claim.sequences) if not queue.waiters else None
        if engine is None:
            granted: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
            waiter = Waiter(granted, without, claim, self._clock() if arrived is None else arrived)
            engine = await self._wait(queue, policy, waiter, policy.queue_wait_s if wait_s is None else wait_s)
        else:
            queue.take(engine, claim.sequences)
        return HeldSlots(queue, engine, claim.sequences)

    def _may_hope(self, queue: ModelQueue, policy: RoutingPolicy) -> bool:
        """Tell whether an engine is there, or is to come and was there less long ago than a request may wait."""
        if queue.engines:
            return True
        return queue.wanted and queue.lost_at is not None and self._clock() - queue.lost_at < policy.queue_wait_s

    async def _wait(self, queue: ModelQueue, policy: RoutingPolicy, waiter: Waiter, wait_s: float) -> Engine:
        if len(queue.waiters) >= policy.queue_max and not queue.make_room_for(waiter):
            raise queue_full()
        queue.join(waiter)
        queue.serve()  # those before it may be waiting for an engine that it does not need
        try:
            async with asyncio.timeout(max(0.0, wait_s)):
                return await waiter.granted
        except BaseException as exc:
            self._leave(queue, waiter)
            if isinstance(exc, TimeoutError):
                raise Unavailable(
                    f"No engine was free within {policy.queue_wait_s:g} s.", retry_after_s=NO_ENGINE_RETRY_S
                ) from None
            raise

    def _leave(self, queue: ModelQueue, waiter: Waiter) -> None:
        """Forget a waiter; a slot that was granted in the same moment goes to the next one."""
        if waiter in queue.waiters:
            queue.waiters.remove(waiter)
        elif waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.exception() is None:
            queue.give_back(waiter.granted.result(), waiter.claim.sequences)


def _rank(waiter: Waiter) -> tuple[int, float]:
    return waiter.claim.priority, waiter.arrived


def queue_full() -> RateLimited:
    """Return the error for a request that finds no room among those that wait, or has lost it to a more urgent one."""
    return RateLimited("The queue of this model is full.", code="rate_limit_exceeded", retry_after_s=QUEUE_RETRY_S)


def not_ready() -> Unavailable:
    """Return the error for a model that is known but has nothing to run on."""
    return Unavailable("No engine of this model is ready.", code="model_not_ready", retry_after_s=NO_ENGINE_RETRY_S)
