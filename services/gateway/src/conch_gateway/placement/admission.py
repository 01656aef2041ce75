"""Who may start now, and on which engine: one bounded queue per model, by priority and then first come, first served.

An engine works on as many sequences at once as it has slots; a request takes one for each of its choices, and an engine
as a whole when it has more of them. Whoever finds none free waits; the queue refuses when it is
full, gives up after the model's waiting time, and forgets a waiter that is cancelled.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Engine, EngineState, RoutingPolicy
from conch_gateway.placement.worker_choice import choose
from conch_kit.errors import RateLimited, Unavailable
from conch_kit.registry.snapshot import Snapshot

NO_ENGINE_RETRY_S = 5.0
QUEUE_RETRY_S = 1.0


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


@dataclass(slots=True)
class ModelQueue:
    """Engines, places taken and waiters of one model."""

    engines: tuple[Engine, ...] = ()
    taken: Counter[EngineAddress] = field(default_factory=Counter)
    waiters: deque[Waiter] = field(default_factory=deque)
    turn: int = 0

    def free_engine(self, without: frozenset[EngineAddress], sequences: int) -> Engine | None:
        """Return the ready engine with the smallest share of its slots taken, or None when none has enough free."""
        free = [
            engine
            for engine in usable(self.engines, without=without)
            if self.taken[engine.grpc] + places(engine, sequences) <= slots(engine)
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
        self.taken[engine.grpc] += places(engine, sequences)

    def give_back(self, engine: Engine, sequences: int) -> None:
        """Free the slots again and let the next waiters have them."""
        self.taken[engine.grpc] -= places(engine, sequences)
        if self.taken[engine.grpc] <= 0:
            del self.taken[engine.grpc]
        self.serve()

    def join(self, waiter: Waiter) -> None:
        """Put a waiter behind all that are as urgent."""
        place = len(self.waiters)
        while place and self.waiters[place - 1].claim.priority > waiter.claim.priority:
            place -= 1
        self.waiters.insert(place, waiter)

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
class Slot:
    """Slots of one engine that are taken until the context ends."""

    queue: ModelQueue
    engine: Engine
    sequences: int

    def __enter__(self) -> Engine:
        return self.engine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.queue.give_back(self.engine, self.sequences)


def usable(engines: Sequence[Engine], *, without: frozenset[EngineAddress] = frozenset()) -> list[Engine]:
    """Return the engines that take new requests and were not tried yet."""
    return [engine for engine in engines if engine.state is EngineState.READY and engine.grpc not in without]


def slots(engine: Engine) -> int:
    """Return how many sequences an engine works on at once."""
    return max(1, engine.slots)


def places(engine: Engine, sequences: int) -> int:
    """Return how many slots so many sequences take: never more than there are."""
    return min(sequences, slots(engine))


class Admission:
    """All queues of one gateway."""

    def __init__(self) -> None:
        self._queues: dict[ModelId, ModelQueue] = {}

    def apply(self, snapshot: Snapshot) -> None:
        """Take over the engines of a new snapshot; new slots go to waiters."""
        for model in self._queues.keys() - snapshot.engines.keys():
            if not self._queues[model].waiters and not self._queues[model].taken:
                del self._queues[model]
            else:
                self._queues[model].engines = ()
        for model, engines in snapshot.engines.items():
            queue = self._queues.setdefault(model, ModelQueue())
            queue.engines = engines
            queue.serve()

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
    ) -> "Slot":
        """Return taken slots of one engine, as a context that gives them back.

        Raises Unavailable when no engine can serve, or none had a free slot in time, and RateLimited when the queue
        is full.
        """
        queue = self._queues.get(model)
        if queue is None or not usable(queue.engines, without=without):
            raise not_ready()
        engine = queue.free_engine(without, claim.sequences) if not queue.waiters else None
        if engine is None:
            granted: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
            engine = await self._wait(queue, policy, Waiter(granted, without, claim))
        else:
            queue.take(engine, claim.sequences)
        return Slot(queue, engine, claim.sequences)

    async def _wait(self, queue: ModelQueue, policy: RoutingPolicy, waiter: Waiter) -> Engine:
        if len(queue.waiters) >= policy.queue_max:
            raise RateLimited(
                "The queue of this model is full.", code="rate_limit_exceeded", retry_after_s=QUEUE_RETRY_S
            )
        queue.join(waiter)
        queue.serve()  # those before it may be waiting for an engine that it does not need
        try:
            async with asyncio.timeout(policy.queue_wait_s):
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
        elif waiter.granted.done() and not waiter.granted.cancelled():
            queue.give_back(waiter.granted.result(), waiter.claim.sequences)


def not_ready() -> Unavailable:
    """Return the error for a model that is known but has nothing to run on."""
    return Unavailable("No engine of this model is ready.", code="model_not_ready", retry_after_s=NO_ENGINE_RETRY_S)
