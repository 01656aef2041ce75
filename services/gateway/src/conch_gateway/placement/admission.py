"""Who may start now, and on which engine: one bounded queue per model, by priority and then first come, first served.

An engine works on as many sequences at once as it has slots; a request takes one for each of its choices, and an engine
as a whole when it has more of them. Whoever finds none free waits. A full queue refuses, or sends
its last away for a more urgent one; it gives up after the model's waiting time, and forgets a waiter that is cancelled.

An engine that could not take a request is passed over: for a moment nobody is sent to it, then one request at a time
tries it, until it has accepted one. Where other gateways have requests for the same model, they share its slots
(`slot_share`).

Where a model starts an engine for a request, and has none, requests are held until it is there (`holds`). When the last
engine of another one has vanished from the registry, requests wait for the next one as long as they may wait at all,
counted from then; a model that has had none for longer, or that is scaled to 0 replicas, is not ready.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Engine, GatewayLoad, Route, RoutingPolicy
from conch_gateway.placement.claim import PLAIN, Claim
from conch_gateway.placement.demand import load_of
from conch_gateway.placement.holds import BATCH_PART, HeldWait, Hold, at_rest, still_starting
from conch_gateway.placement.model_queue import (
    NO_ENGINE_RETRY_S,
    Grant,
    ModelQueue,
    Waiter,
    not_ready,
    removed,
    replaced,
)
from conch_gateway.placement.retry_times import spread_s
from conch_gateway.placement.slot_share import OthersOfModel, others_by_model
from conch_gateway.placement.waiting_room import WaitingRoom
from conch_kit.errors import Unavailable
from conch_kit.registry.load_reader import OtherLoads
from conch_kit.registry.snapshot import Snapshot

HELD_BYTES = 64 * 1024 * 1024
"""Of the bodies and prompts of all requests that wait for engines to start."""
QUEUED_BYTES = 128 * 1024 * 1024
"""Of the bodies and prompts of all requests that wait for a free engine, or for a worker or tokenizer that is away."""


class EnginesGone(Exception):
    """The last engine has gone that a request waited for; if it asks again it is held (`Dispatcher` alone does)."""


@dataclass(frozen=True, slots=True)
class TakenSlots:
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

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        held_bytes: int = HELD_BYTES,
        queued_bytes: int = QUEUED_BYTES,
    ) -> None:
        self.changed: Callable[[], None] = lambda: None
        """Hears of each change of what there is to do; set by whoever tells of it what is in here."""
        self.held: Callable[[ModelId], None] = lambda _: None
        """Hears that a first request is held, likewise."""
        self._clock = clock
        self._queues: dict[ModelId, ModelQueue] = {}
        self._ended: dict[ModelId, ModelQueue] = {}
        """Of models that are served no more, while engines work for them: should one be made again, that counts."""
        self._revision = 0
        self._held = WaitingRoom(held_bytes)
        self.queued = WaitingRoom(queued_bytes)
        """Of all that waits for what is busy or away, but for engines that start."""
        self._others: Mapping[ModelId, OthersOfModel] = {}
        self._others_of_rest: OthersOfModel | None = None

    def apply(self, snapshot: Snapshot) -> None:
        """Take over the engines of a new snapshot; new slots go to waiters.

        A snapshot has the very objects of the one before for what has not changed: of a thousand models most have not.
        """
        self._revision = snapshot.revision
        for model in self._queues.keys() - snapshot.engines.keys():
            self._ended[model] = self._queues.pop(model)
            self._ended[model].end()
        self._ended = {model: queue for model, queue in self._ended.items() if queue.taken}
        for model, engines in snapshot.engines.items():
            queue, route = self._queues.get(model), snapshot.routes.get(model)
            if queue is None:
                queue = self._ended.pop(model, None) or ModelQueue(self._has_changed, self._clock)
                self._queues[model] = queue
                queue.others = self._others.get(model, self._others_of_rest)
            elif queue.engines is engines and queue.route is route:
                continue
            queue.apply(engines, route)

    def apply_others(self, said: OtherLoads) -> None:
        """Take over what the other gateways do."""
        self._others = others_by_model(said.loads, away=said.away)
        self._others_of_rest = OthersOfModel(len(said.loads), away=True) if said.away and said.loads else None
        for model, queue in self._queues.items():
            others = self._others.get(model, self._others_of_rest)
            if others is not None or queue.others is not None:
                queue.apply_others(others)

    def load(self, gateway_id: str, sequence: int) -> GatewayLoad:
        """Return what this gateway has to do."""
        now = self._clock()
        return load_of(gateway_id, sequence, self._revision, self._queues, now)

    def waiting(self) -> Mapping[ModelId, int]:
        """Return how many requests wait per model."""
        return {model: len(queue.waiters) for model, queue in self._queues.items()}

    def has_engine(self, model: ModelId) -> bool:
        """Tell whether a model has an engine."""
        queue = self._queues.get(model)
        return queue is not None and bool(queue.engines)

    def ready_in_s(self, model: ModelId) -> float | None:
        """Return when a model without an engine should have one; None: nobody knows."""
        queue = self._queues.get(model)
        return None if queue is None else queue.start.left_s(self._clock())

    def wish(self, model: ModelId) -> None:
        """Note that somebody wants an engine of a model to start."""
        queue = self._queues.get(model)
        if queue is not None and queue.holds():
            queue.start.wanted(self._clock())

    def holds(self, model: ModelId) -> bool:
        """Tell whether a request for this model waits for an engine to start."""
        queue = self._queues.get(model)
        return queue is not None and queue.holds()

    def has_files_of(self, route: Route) -> bool:
        """Tell whether the engines of a model hold the very files that this route was written for."""
        queue = self._queues.get(route.model_id)
        if queue is None or queue.route is None:
            return False
        now = queue.route
        return (now.encoder, now.engine_model, now.created) == (route.encoder, route.engine_model, route.created)

    def all_outdated(self, model: ModelId) -> bool:
        """Tell whether a model has engines, and all of them still hold other files than its route was written for."""
        queue = self._queues.get(model)
        return queue is not None and bool(queue.engines) and all(engine.outdated for engine in queue.engines)

    async def slot(
        self,
        model: ModelId,
        policy: RoutingPolicy,
        claim: Claim = PLAIN,
        *,
        without: frozenset[EngineAddress] = frozenset(),
        arrived: float | None = None,
        wait_s: float | None = None,
        route: Route | None = None,
    ) -> "TakenSlots":
        """Return taken slots of one engine, as a context that gives them back.

        The engines of `without` are given only where there are no others. A request that asks again says when it
        `arrived`, and how long it may still wait. One that an engine is started for waits as its hold says. `route` is
        the model that the request was prepared for; None: it does not matter.

        Raises ModelNotFound when the model has gone since the request came; Unavailable when no engine can serve, none
        had a free slot in time, or the model is another one now; RateLimited when the queue is full; EnginesGone when
        the last engine vanished while the request waited, and it is held as soon as it asks again.
        """
        queue = self._queues.get(model)
        if queue is None:
            raise removed()
        if not queue.is_prepared(route):
            raise replaced()
        if not self._may_hope(queue, policy):
            raise queue.not_ready()
        engine = queue.free_engine(without, claim) if not queue.waiters else None
        if engine is None:
            granted: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
            waiter = Waiter(granted, without, claim, self._clock() if arrived is None else arrived, route)
            if queue.holds() and claim.hold is not None:
                engine = await self._hold(model, queue, policy, waiter, claim.hold())
            else:
                engine = await self._wait(queue, policy, waiter, claim.patience_s(policy) if wait_s is None else wait_s)
        else:
            queue.take(engine, claim.sequences)
        return TakenSlots(queue, engine, claim.sequences)

    def _may_hope(self, queue: ModelQueue, policy: RoutingPolicy) -> bool:
        """Tell whether an engine is there, or starts for a request, or is to come and was there a short while ago."""
        if queue.engines or queue.wakes:
            return True
        if queue.failed is not None or not queue.wanted or queue.lost_at is None:
            return False
        return self._clock() - queue.lost_at < policy.queue_wait_s

    async def _wait(self, queue: ModelQueue, policy: RoutingPolicy, waiter: Waiter, wait_s: float) -> Engine:
        with self.queued.taken(waiter.claim.size, "engines that are busy", queue.retry_after_s):
            if len(queue.waiters) >= policy.queue_max and not queue.make_room_for(waiter):
                raise queue.full()
            queue.join(waiter)
            queue.serve()  # those before it may be waiting for an engine that it does not need
            try:
                if not await self._is_granted(policy, waiter, wait_s):
                    raise _none_free(policy, waiter.claim) if queue.engines else not_ready()
                engine = _engine_of(waiter.granted.result())
            except BaseException:
                queue.leave(waiter)
                raise
        if engine is None:
            raise EnginesGone
        return engine

    async def _is_granted(self, policy: RoutingPolicy, waiter: Waiter, wait_s: float) -> bool:
        """Wait so long, and once more from when the last engine vanished meanwhile; tell whether it helped."""
        await asyncio.wait((waiter.granted,), timeout=wait_s)
        if waiter.lost_at is not None and waiter.claim.max_wait_s is None and not waiter.granted.done():
            left_s = waiter.lost_at + policy.queue_wait_s - self._clock()
            await asyncio.wait((waiter.granted,), timeout=max(0.0, left_s))
        return waiter.granted.done()

    async def _hold(
        self, model: ModelId, queue: ModelQueue, policy: RoutingPolicy, waiter: Waiter, hold: Hold
    ) -> Engine:
        """Wait for an engine to start, and then for a slot of it.

        Who has no time for that does not wake the model, nor does a batch: it waits for others to do so.
        """
        wakes = waiter.claim.wakes
        if hold.patience_s <= 0:
            raise self._not_there(queue, starts=wakes and queue.start.since is not None)
        part = 1.0 if wakes else BATCH_PART
        with self._held.taken(waiter.claim.size, "engines that start", queue.retry_after_s, part=part):
            if len(queue.waiters) >= queue.hold_max and not queue.make_room_for(waiter):
                raise queue.full()
            began = self._clock()
            first = wakes and not any(other.held and other.claim.wakes for other in queue.waiters)
            if wakes:
                queue.start.wanted(began)
            waiter.held = True
            queue.join(waiter)
            ends = partial(_end_of_hold, queue, policy, hold, began)
            try:
                if first:
                    self.held(model)
                async with HeldWait(waiter.granted, hold, ends, queue.start, self._clock):
                    engine = _engine_of(await waiter.granted)
            except BaseException:
                queue.leave(waiter)
                raise
            finally:
                hold.ended(self._clock() - began)
        if engine is None:
            queue.leave(waiter)
            raise _none_free(policy, waiter.claim) if queue.engines else self._not_there(queue, starts=wakes)
        return engine

    def _not_there(self, queue: ModelQueue, *, starts: bool) -> Unavailable:
        return still_starting(queue.start, self._clock()) if starts else at_rest()

    def _has_changed(self) -> None:
        self.changed()


def _engine_of(grant: Grant) -> Engine | None:
    """Return the engine of a grant, and None where there is none for the moment; raises the error that it makes."""
    if grant is None or isinstance(grant, Engine):
        return grant
    raise grant()


def _end_of_hold(queue: ModelQueue, policy: RoutingPolicy, hold: Hold, began: float) -> float:
    """Return when a hold ends: a stream, whose client has its status, waits for a slot as long as any other request."""
    last = began + hold.patience_s
    if not queue.engines or hold.tell is None:
        return last
    return min(last, queue.came_at + policy.queue_wait_s)


def _none_free(policy: RoutingPolicy, claim: Claim) -> Unavailable:
    after_s = spread_s(NO_ENGINE_RETRY_S)
    return Unavailable(f"No engine was free within {claim.patience_s(policy):g} s.", retry_after_s=after_s)
