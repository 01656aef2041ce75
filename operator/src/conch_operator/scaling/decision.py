"""Pure: how many engines a model should have now, by what its gateways have to do.

More come when more have been needed for 10 s; at once where none is there, where twice what all can take is waiting, or
where somebody has waited for long; at most twice as many within the time of a start. Those go that have not been needed
for two fifths of a window, which is 5 minutes or more, and none within a window after one that came. All go when
nothing has happened for a while, which is short where another model waits for their room: they leave the route first,
and a request that comes meanwhile gets them back. What is not known never takes an engine away.
"""

import math
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from conch_operator.scaling.starts import StartTimes

UP_AFTER_S = 10.0
LONG_WAIT_S = 5.0
"""Once a request has waited for so long, what is needed is started at once."""
SETTLE_S = 15.0
"""How long engines that have just come may take for what had piled up, before more are started."""
TREND_S = 20.0
"""What there was to do in that time, on average, tells whether it gets less."""
STEP = 4
"""So many engines may be started at once however few there are, as a HorizontalPodAutoscaler does."""
LEAST_WINDOW_S = 300.0
LULL_PART = 0.4
"""For this part of a window fewer engines must have been enough before one goes."""
STARTS_IN_WINDOW = 3
STARTS_BEFORE_REST = 2
LENT_AFTER_S = 5.0
"""How long a model must have been idle to rest for another one; as long as a start, where that is longer."""


class Cause(StrEnum):
    """Why there are as many engines as there are."""

    LOAD = "Load"
    IDLE = "Idle"
    LENT = "Lent"
    """Idle too, and gone early: no node had room for another model that somebody waited for."""
    MINIMUM = "Minimum"
    MAXIMUM = "Maximum"
    SCHEDULE = "Schedule"
    WOKEN = "Woken"
    """Somebody has asked for it to be awake."""
    FIRST_START = "FirstStart"
    """No engine of this spec has answered yet, so nobody knows whether a request could start one."""
    FOUND = "Found"
    """They were there before anything was decided here: by an operator before this one, or by somebody else."""
    REPLICAS = "Replicas"
    """Somebody else has decided it."""


_FOR_A_TIME = (Cause.SCHEDULE, Cause.WOKEN)
"""Causes of a minimum that begins and ends while engines run."""


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """What all gateways have to do for one model."""

    sequences: int = 0
    """Running, queued and held ones."""
    oldest_wait_s: float = 0.0
    idle_s: float | None = None
    """Seconds since a request last ended; None: nobody knows of one."""
    complete: bool = False
    """Whether every gateway that lives has said it; else there may be more."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a model may scale, and what one of its engines is for."""

    least: int
    most: int
    slots: int
    """Requests that one engine takes at once."""
    target: float
    """Which part of them is to be filled."""
    idle_after_s: float
    why_least: Cause = Cause.MINIMUM
    lends: bool = False
    """Whether another model waits for the room of its engines."""


@dataclass(frozen=True, slots=True)
class EnginesSeen:
    """The engines that there are."""

    ready: int = 0
    failing: bool = False
    """Whether one of them does not start, and not because it only takes its time."""
    drained: bool = False
    """Whether no gateway sends any of them anything, as all have said since they left the route."""


class EngineScaler:
    """Decides for one model; knows what was needed lately, and which way it went last."""

    def __init__(self, engines: int, now_s: float, starts: StartTimes) -> None:
        """Begin with the engines that are there; they count as needed until now."""
        self.desired = engines
        self.cause = Cause.FOUND
        self.draining = False
        """Whether its engines are to get nothing more, because all are about to go."""
        self.idle_s = -math.inf
        """For how long nobody has needed its engines; less than 0 while somebody may."""
        self._starts = starts
        self._needed: deque[tuple[float, int]] = deque([(now_s, engines)])
        self._had: deque[tuple[float, int]] = deque([(now_s, engines)])
        self._recent: deque[tuple[float, int]] = deque()
        self._recent_sum = 0
        self._ready = engines
        self._grown_at_s = now_s - SETTLE_S
        self._kept_from_s = now_s
        """When an engine last came, or not all was known."""
        self._quiet_since_s: float | None = None

    @property
    def may_lend(self) -> bool:
        """Return whether nobody has needed its engines for so long that another model may have their room."""
        return self.idle_s >= max(LENT_AFTER_S, self._starts.usual_s)

    @property
    def window_s(self) -> float:
        """Return for how long none goes after one has come."""
        return max(LEAST_WINDOW_S, STARTS_IN_WINDOW * self._starts.slow_s)

    def decide(self, load: ModelLoad, bounds: Bounds, engines: EnginesSeen, now_s: float) -> int:
        """Return how many engines there should be now."""
        if self.cause is Cause.REPLICAS:
            self.cause = Cause.FOUND
        needed = needed_for(load.sequences, bounds)
        self._note(needed, load, engines.ready, now_s)
        if self._goes_to_rest(load, bounds, engines, now_s):
            self._turn(0, Cause.IDLE if self.idle_s >= self._rests_after_s(bounds) else Cause.LENT, now_s)
        elif (wanted := self._up(needed, load, bounds, engines, now_s)) > self.desired:
            self._turn(wanted, Cause.LOAD, now_s)
        elif (enough := self._enough(bounds, engines, now_s)) < self.desired:
            self._turn(enough, Cause.LOAD, now_s)
        if self.desired < bounds.least:
            self._turn(bounds.least, bounds.why_least, now_s)
        elif self.desired > bounds.most:
            self._turn(bounds.most, Cause.MAXIMUM, now_s)
        elif self.desired == bounds.least and bounds.why_least in _FOR_A_TIME:
            self.cause = bounds.why_least  # whatever has started them, this keeps them
        return self.desired

    def follow(self, engines: int, now_s: float) -> None:
        """Take over what somebody else has decided; should that end, it counts as needed until then."""
        if engines != self.desired:
            self._turn(engines, Cause.REPLICAS, now_s)
        self.cause = Cause.REPLICAS
        self._needed = deque([(now_s, engines)])
        self._kept_from_s = now_s
        self._quiet_since_s = None

    def _note(self, needed: int, load: ModelLoad, ready: int, now_s: float) -> None:
        """Remember what is needed for as long as it matters."""
        if needed != self._needed[-1][1]:
            self._needed.append((now_s, needed))
        if not load.complete:  # there may be more to do than anybody has said
            self._kept_from_s = now_s
        while len(self._needed) > 1 and self._needed[1][0] <= now_s - self.window_s * LULL_PART:
            self._needed.popleft()
        self._note_recent(load.sequences, now_s)
        if ready > self._ready:
            self._grown_at_s = now_s
        self._ready = ready
        if load.sequences or not load.complete:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s

    def _goes_to_rest(self, load: ModelLoad, bounds: Bounds, engines: EnginesSeen, now_s: float) -> bool:
        """Return whether all engines may go now; first they are taken out of the route."""
        self.idle_s = self._idle_for_s(load, engines, now_s)
        quiet = self.idle_s >= self._rests_after_s(bounds) or (bounds.lends and self.may_lend)
        idle = bounds.least == 0 and self.desired > 0 and quiet and not engines.failing
        drained = self.draining and engines.drained
        self.draining = idle
        return idle and drained

    def _rests_after_s(self, bounds: Bounds) -> float:
        """Return how long it is to be idle before it rests, where nobody else needs the room."""
        return max(bounds.idle_after_s, STARTS_BEFORE_REST * self._starts.usual_s)

    def _idle_for_s(self, load: ModelLoad, engines: EnginesSeen, now_s: float) -> float:
        if self._quiet_since_s is None:
            return -math.inf
        # Who waited for an engine to start may not have asked yet.
        unused_s = now_s - self._grown_at_s if engines.ready else math.inf
        ended_s = math.inf if load.idle_s is None else load.idle_s
        return min(now_s - self._quiet_since_s, unused_s, ended_s)

    def _up(self, needed: int, load: ModelLoad, bounds: Bounds, engines: EnginesSeen, now_s: float) -> int:
        capacity = self.desired * bounds.slots
        flooded = self.desired == 0 or load.sequences > 2 * capacity
        late = load.oldest_wait_s > LONG_WAIT_S and engines.ready >= self.desired
        wanted = needed if flooded or late else self._least_since(now_s - UP_AFTER_S)
        if not flooded and engines.ready < self.desired:
            # What piles up until they are there is no measure of what comes in.
            wanted = min(wanted, ceil(load.sequences / bounds.slots))
        if self.desired and (now_s - self._grown_at_s < SETTLE_S or self._falls(load.sequences)):
            return self.desired
        return min(wanted, bounds.most, self._limit(engines, now_s))

    def _note_recent(self, sequences: int, now_s: float) -> None:
        self._recent.append((now_s, sequences))
        self._recent_sum += sequences
        while self._recent[0][0] < now_s - TREND_S:
            self._recent_sum -= self._recent.popleft()[1]

    def _falls(self, sequences: int) -> bool:
        """Return whether there was more to do lately: the engines that are there get done with it."""
        return sequences * len(self._recent) < self._recent_sum

    def _limit(self, engines: EnginesSeen, now_s: float) -> int:
        """Return how many there may be: twice those of one start ago, or four more, where that is more."""
        self._forget_had(now_s)
        base = max(min(engines.ready, self.desired), self._had[0][1])
        return max(2 * base, base + STEP)

    def _forget_had(self, now_s: float) -> None:
        """Forget how many there were longer than one start ago, but for the last time before that."""
        while len(self._had) > 1 and self._had[1][0] <= now_s - self._starts.usual_s:
            self._had.popleft()

    def _least_since(self, since_s: float) -> int:
        """Return the least that was needed at any moment since then."""
        least = self._needed[-1][1]
        for at_s, count in reversed(self._needed):
            least = min(least, count)
            if at_s <= since_s:
                break
        return least

    def _enough(self, bounds: Bounds, engines: EnginesSeen, now_s: float) -> int:
        """Return how many were enough lately, if for a window none has come; the last one goes only to rest."""
        least = max(bounds.least, 1)
        if self.desired <= least or engines.failing or self.draining or now_s - self._kept_from_s < self.window_s:
            return self.desired
        return max(least, *(count for _, count in self._needed))

    def _turn(self, wanted: int, cause: Cause, now_s: float) -> None:
        if wanted > self.desired:
            self._kept_from_s = now_s
            self.draining = False
        self.desired, self.cause = wanted, cause
        self._had.append((now_s, wanted))
        self._forget_had(now_s)


def needed_for(sequences: int, bounds: Bounds) -> int:
    """Return how many engines so many sequences fill to the target."""
    return ceil(sequences / sequences_per_engine(bounds.slots, bounds.target))


def sequences_per_engine(slots: int, target: float) -> float:
    """Return how many sequences one engine is for, at least one."""
    return max(1.0, slots * target)
