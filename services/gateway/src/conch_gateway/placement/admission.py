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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Engine, RoutingPolicy
from conch_gateway.placement.model_queue import NO_ENGINE_RETRY_S, Claim, ModelQueue, Waiter, not_ready, queue_full
from conch_kit.errors import Unavailable
from conch_kit.registry.snapshot import Snapshot


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
