"""The queue of one model: its engines, the slots that are taken of them, and the requests that wait for one.

Nobody waits in here: `admission.py` does, and takes what the queue grants.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine, ModelDemand, Route
from conch_gateway.placement.claim import Claim
from conch_gateway.placement.holds import MODEL_NOT_READY, EngineStart, start_failed
from conch_gateway.placement.retry_times import spread_s
from conch_gateway.placement.slot_share import LEFT_S, OthersOfModel
from conch_gateway.placement.worker_choice import choose
from conch_kit.errors import ModelNotFound, RateLimited, ServiceError, Unavailable

NO_ENGINE_RETRY_S = 5.0
QUEUE_RETRY_S = 1.0
PASSED_OVER_S = 0.5
"""How long nobody is sent to an engine that could not take a request."""
TRIAL_S = 6.0
"""How long one request alone tries such an engine: a connection that cannot be made is given up before that, and an
answer that comes whole says only at its end that it was taken."""


Grant = Engine | Callable[[], ServiceError] | None
"""The engine that a waiter may use; or what makes its error, since a future that holds an error would keep the request
with it; or None when it is held no longer, or waits for an engine that has gone."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One request in the queue."""

    granted: asyncio.Future[Grant]
    without: frozenset[EngineAddress]
    claim: Claim
    arrived: float
    """When the request first asked: one that comes back has kept its place."""
    route: Route | None = None
    """The model that the request was prepared for; None: whatever there is."""
    held: bool = False
    """Whether it waits for an engine to start, and not only for a free one."""
    lost_at: float | None = None
    """When the last engine vanished while it waited."""


def _nobody() -> None:
    """Hear of a change that concerns nobody."""


@dataclass(slots=True)
class ModelQueue:
    """Engines, slots taken and waiters of one model."""

    changed: Callable[[], None] = _nobody
    """Hears that the demand has changed."""
    clock: Callable[[], float] = time.monotonic
    engines: tuple[Engine, ...] = ()
    taken: Counter[EngineAddress] = field(default_factory=Counter)
    waiters: deque[Waiter] = field(default_factory=deque)
    turn: int = 0
    route: Route | None = None
    """The model as it is now; None: not known."""
    wanted: bool = True
    """Whether the model is to have engines; else nobody waits for one to come."""
    wakes: bool = False
    """Whether an engine is started for a request where there is none, and can be."""
    failed: str | None = None
    """Why none starts."""
    hold_max: int = 0
    """Requests that may wait for an engine to start."""
    start: EngineStart = field(default_factory=EngineStart)
    others: OthersOfModel | None = None
    """What other gateways do for the model; None: nothing."""
    came_at: float = 0.0
    """When there was an engine again, after there was none."""
    lost_at: float | None = None
    """When the last engine vanished; None: there is one, or never was."""
    ended_at: float | None = None
    """When a request last gave its slots back; None: none has."""
    _passed_over: dict[EngineAddress, asyncio.TimerHandle | None] = field(default_factory=dict)
    """Engines that could not take a request: until when nobody is sent there, or nobody but the one who tries it; None:
    the next one may try it."""
    _left: set[EngineAddress] = field(default_factory=set)
    """Engines of which a slot is left to other gateways at this moment."""

    def apply(self, engines: tuple[Engine, ...], route: Route | None = None) -> None:
        """Take over what the registry holds; an engine that comes new to it has not refused anything."""
        now = self.clock()
        if route is not None:
            if route is not self.route:
                self.route = route
                self._send_away(replaced, [waiter for waiter in self.waiters if not self.is_prepared(waiter.route)])
            self.wanted, self.hold_max, self.start.takes_s = route.engines_wanted, route.hold_max, route.start_s
            self.failed = route.start_failed if route.wakes else None
            self.wakes = route.wakes and self.failed is None
        if engines:
            self.lost_at = self.start.since = None
            if not self.engines:
                self.came_at = now
        elif self.engines:
            self.lost_at = now
            for waiter in self.waiters:
                waiter.lost_at = now
        self.engines = engines
        for address in self._passed_over.keys() - {engine.grpc for engine in engines}:
            self._stop_passing_over(address)
        self.serve()
        if self.holds():
            self._send_away(None, filter(_may_be_held, self.waiters))
        elif not engines and not self.wakes and (self.failed or not self.wanted):
            self._send_away(self.not_ready, self.waiters)

    def apply_others(self, others: OthersOfModel | None) -> None:
        """Take over what other gateways do for the model."""
        self.others = others
        if self.waiters:
            self.serve()

    def holds(self) -> bool:
        """Tell whether a request waits for an engine to start."""
        return not self.engines and self.wakes

    def demand(self, now: float) -> ModelDemand:
        """Return what there is to do for the model; what waits for others to wake it is left out."""
        waiters = [waiter for waiter in self.waiters if self.engines or waiter.claim.wakes]
        waiting = sum(waiter.claim.sequences for waiter in waiters)
        return ModelDemand(
            in_flight=self.taken.total(),
            queued=waiting if self.engines else 0,
            held=0 if self.engines else waiting,
            oldest_wait_s=now - min((waiter.arrived for waiter in waiters), default=now),
            idle_s=None if self.ended_at is None else now - self.ended_at,
            taken=dict(self.taken),
        )

    def refused(self, engine: Engine) -> None:
        """Pass an engine over for a while that could not take a request, unless it has gone: another may come there."""
        self._stop_passing_over(engine.grpc)
        if any(each.grpc == engine.grpc for each in self.engines):
            pause = asyncio.get_running_loop().call_later(PASSED_OVER_S, self._may_be_tried, engine.grpc)
            self._passed_over[engine.grpc] = pause

    def accepted(self, engine: Engine) -> None:
        """Note that an engine takes requests."""
        if engine.grpc in self._passed_over:
            self._stop_passing_over(engine.grpc)
            self.serve()

    def _stop_passing_over(self, address: EngineAddress) -> None:
        timer = self._passed_over.pop(address, None)
        if timer is not None:
            timer.cancel()

    def _may_be_tried(self, address: EngineAddress) -> None:
        self._passed_over[address] = None
        self.serve()

    def _is_passed_over(self, engine: Engine) -> bool:
        return self._passed_over.get(engine.grpc) is not None

    def free_engine(self, without: frozenset[EngineAddress], claim: Claim) -> Engine | None:
        """Return the engine with the smallest share of its slots taken, or None when none has enough free.

        Its `slots` are those that the claim gets where that is less than it asks for. The engines of `without` are
        given only where there are no others.
        """
        if without and without.issuperset(engine.grpc for engine in self.engines):
            without = frozenset()
        wanted = claim.sequences
        if self.others is not None:
            return self._shared_engine(without, wanted, self.others)
        free = [
            engine
            for engine in self.engines
            if engine.grpc not in without
            and not self._is_passed_over(engine)
            and self.taken[engine.grpc] + slots_for(engine, wanted) <= slots(engine)
        ]
        if not free:
            return None
        if len(free) == 1:
            return free[0]
        self.turn += 1
        loads = [self.taken[engine.grpc] / slots(engine) for engine in free]
        return free[choose(loads, start=self.turn % len(free))]

    def _shared_engine(self, without: frozenset[EngineAddress], wanted: int, others: OthersOfModel) -> Engine | None:
        """Return an engine that other gateways leave room in.

        It is the better one of two by chance: what is known of the others is a little old, and if all took the best
        one they would meet there.
        """
        mine = self._own_demand()
        rooms = [
            (engine, others.room(engine.grpc, slots(engine), self.taken[engine.grpc], slots_for(engine, wanted), mine))
            for engine in self.engines
            if engine.grpc not in without and engine.grpc not in self._left and not self._is_passed_over(engine)
        ]
        free = [(engine, room) for engine, room in rooms if room]
        if not free:
            return None
        two = random.sample(free, min(2, len(free)))
        engine, room = min(two, key=lambda each: self._load(each[0], others))
        return engine if room >= slots_for(engine, wanted) else engine.model_copy(update={"slots": room})

    def _load(self, engine: Engine, others: OthersOfModel) -> float:
        return (self.taken[engine.grpc] + others.taken.get(engine.grpc, 0)) / slots(engine)

    def _own_demand(self) -> int:
        return self.taken.total() + sum(waiter.claim.sequences for waiter in self.waiters)

    def take(self, engine: Engine, sequences: int) -> None:
        """Take the slots for so many sequences."""
        self.taken[engine.grpc] += slots_for(engine, sequences)
        if engine.grpc in self._passed_over:
            trial = asyncio.get_running_loop().call_later(TRIAL_S, self.accepted, engine)
            self._passed_over[engine.grpc] = trial
        self.changed()

    def give_back(self, engine: Engine, sequences: int) -> None:
        """Free the slots again and let the next waiters have them."""
        self.taken[engine.grpc] -= slots_for(engine, sequences)
        if self.taken[engine.grpc] <= 0:
            del self.taken[engine.grpc]
        self.ended_at = self.clock()
        if self.others is not None:
            self._leave_to_others(engine.grpc, self.others)
        self.serve()
        self.changed()

    def _leave_to_others(self, address: EngineAddress, others: OthersOfModel) -> None:
        """Let other gateways have a slot first that is not this one's by right."""
        size = next((slots(engine) for engine in self.engines if engine.grpc == address), 0)
        if size and address not in self._left and others.first_chance(size, self.taken[address], self._own_demand()):
            self._left.add(address)
            asyncio.get_running_loop().call_later(LEFT_S, self._stop_leaving, address)

    def _stop_leaving(self, address: EngineAddress) -> None:
        self._left.discard(address)
        self.serve()

    def end(self) -> None:
        """Send those away who wait: the model is not served any more. Those who have a slot keep it."""
        self._send_away(removed, self.waiters)
        self.apply(())
        self.lost_at = self.ended_at = None
        self.start = EngineStart()

    def not_ready(self) -> Unavailable:
        """Return the error for a request when there is no engine, and none to wait for."""
        return not_ready() if self.failed is None else start_failed(self.failed)

    def is_prepared(self, route: Route | None) -> bool:
        """Tell whether what was prepared for a route suits the model that there is now; None: it suits any."""
        return route is None or self.route is None or prepared_alike(route, self.route)

    def _send_away(self, grant: Grant, waiters: Iterable[Waiter]) -> None:
        """Take these out of the queue, each with what it is granted."""
        for waiter in [*waiters]:
            self.waiters.remove(waiter)
            _grant(waiter, grant)
            self.changed()

    def join(self, waiter: Waiter) -> None:
        """Put a waiter behind all that are as urgent and came before it."""
        place, rank = len(self.waiters), _rank(waiter)
        while place and _rank(self.waiters[place - 1]) > rank:
            place -= 1
        self.waiters.insert(place, waiter)
        self.changed()

    def leave(self, waiter: Waiter) -> None:
        """Forget a waiter; a slot that was granted in the same moment goes to the next one."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)
            self.changed()
        elif waiter.granted.done() and not waiter.granted.cancelled():
            engine = waiter.granted.result()
            if isinstance(engine, Engine):
                self.give_back(engine, waiter.claim.sequences)

    def make_room_for(self, waiter: Waiter) -> bool:
        """Send the last of a full queue away where it is less urgent than a newcomer; return whether it was."""
        if not self.waiters or self.waiters[-1].claim.priority <= waiter.claim.priority:
            return False
        _grant(self.waiters.pop(), self.full)
        return True

    def full(self) -> RateLimited:
        """Return the error for a request that finds no room among those that wait, or has lost it."""
        return RateLimited(
            "The queue of this model is full.", code="rate_limit_exceeded", retry_after_s=self.retry_after_s()
        )

    def retry_after_s(self) -> float:
        """Return when a request that finds no room to wait should come again."""
        return self.start.retry_after_s(self.clock()) if self.holds() else spread_s(QUEUE_RETRY_S)

    def serve(self) -> None:
        """Hand free slots to waiters, the first in the queue first."""
        for waiter in list(self.waiters):
            engine = self.free_engine(waiter.without, waiter.claim)
            if engine is None:
                if not self._avoids_some(waiter):
                    return
                continue
            self.waiters.remove(waiter)
            if not waiter.granted.done():
                self.take(engine, waiter.claim.sequences)
                waiter.granted.set_result(engine)

    def _avoids_some(self, waiter: Waiter) -> bool:
        """Tell whether those behind a waiter may have an engine that it may not."""
        there = {engine.grpc for engine in self.engines} if waiter.without else set()
        return not (waiter.without.isdisjoint(there) or waiter.without.issuperset(there))


def _may_be_held(waiter: Waiter) -> bool:
    """Tell whether one that waits for an engine that has gone may be held until there is another."""
    hold = waiter.claim.hold
    return not waiter.held and hold is not None and hold().patience_s > 0


def _grant(waiter: Waiter, grant: Grant) -> None:
    if not waiter.granted.done():
        waiter.granted.set_result(grant)


def slots(engine: Engine) -> int:
    """Return how many sequences an engine works on at once."""
    return max(1, engine.slots)


def slots_for(engine: Engine, sequences: int) -> int:
    """Return how many slots so many sequences take: never more than there are."""
    return min(sequences, slots(engine))


def _rank(waiter: Waiter) -> tuple[int, float]:
    return waiter.claim.priority, waiter.arrived


def not_ready() -> Unavailable:
    """Return the error for a model that is known but has nothing to run on."""
    after_s = spread_s(NO_ENGINE_RETRY_S)
    return Unavailable("No engine of this model is ready.", code=MODEL_NOT_READY, retry_after_s=after_s)


def prepared_alike(one: Route, other: Route) -> bool:
    """Tell whether what was prepared for one route is understood by the engines of the other.

    A prompt that the template before an edit has made is, though it would be another one now.
    """
    return one is other or _understands(one) == _understands(other)


def _understands(route: Route) -> tuple[object, ...]:
    encoder = route.encoder
    of_encoders = encoder.pooling, encoder.inputs, encoder.output
    return route.dialect, route.tokenizer_digest, route.text_output, of_encoders, route.speech.window_tokens


def replaced() -> Unavailable:
    """Return the error for a request whose model was replaced by one that its prompt was not prepared for."""
    after_s = spread_s(QUEUE_RETRY_S)
    return Unavailable("The model was replaced while the request waited.", code=MODEL_NOT_READY, retry_after_s=after_s)


def removed() -> ModelNotFound:
    """Return the error for a request that waited for an engine of a model that was deleted meanwhile."""
    return ModelNotFound("The model was deleted.", param="model", code="model_not_found")
