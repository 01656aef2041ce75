"""Lives through a day: requests, slots, engines that take time to start, and the operator's rule once a second."""

from collections import deque
from dataclasses import dataclass, field

from conch_operator.scaling.decision import Bounds, EngineScaler, EnginesSeen, ModelLoad
from conch_operator.scaling.starts import StartTimes
from generate.scaling_day.loads import REQUEST_S, Day

SLOTS = 16
TARGET = 0.7
MOST = 10
START_S = 25
QUEUE = 200
IDLE_AFTER_S = 300.0


@dataclass(slots=True)
class Lived:
    """What a day was like, second by second."""

    day: Day
    engines: list[int] = field(default_factory=list)
    """Those that are there, starting or not."""
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    longest_wait_s: int = 0
    changes: list[tuple[int, int]] = field(default_factory=list)
    """When the number of engines changed, and by how many."""

    @property
    def engine_hours(self) -> float:
        """Return what it cost."""
        return sum(self.engines) / 3600

    @property
    def reversals(self) -> list[int]:
        """Return the seconds in which fewer engines followed on more."""
        pairs = zip(self.changes, self.changes[1:], strict=False)
        return [at for (_, before), (at, change) in pairs if before > 0 > change]


@dataclass(slots=True)
class _Queue:
    """Requests that wait, by the second in which they came."""

    waiting: deque[list[int]] = field(default_factory=deque)
    size: int = 0

    def put(self, at_s: int, count: int) -> None:
        if count:
            self.waiting.append([at_s, count])
            self.size += count

    def take(self, count: int) -> int:
        """Take so many, the oldest first; return when the oldest came."""
        oldest = self.waiting[0][0] if self.waiting else 0
        self.size -= count
        while count:
            taken = min(count, self.waiting[0][1])
            self.waiting[0][1] -= taken
            count -= taken
            if not self.waiting[0][1]:
                self.waiting.popleft()
        return oldest


def live(day: Day) -> Lived:
    """Return what the day was like."""
    lived, queue = Lived(day), _Queue()
    scaler = EngineScaler(max(1, day.least), 0.0, StartTimes([START_S]))
    bounds = Bounds(day.least, MOST, SLOTS, TARGET, IDLE_AFTER_S)
    ready_at: list[int] = [0] * scaler.desired
    started: dict[int, int] = {}
    running, ended_at, drained = 0, -REQUEST_S, False
    for now, arrivals in enumerate(day.arrivals):
        if ending := started.pop(now - REQUEST_S, 0):
            running, ended_at = running - ending, now
        ready = sum(at <= now for at in ready_at)
        queue.put(now, arrivals)
        if starting := min(queue.size, max(0, ready * SLOTS - running) if not scaler.draining else 0):
            lived.longest_wait_s = max(lived.longest_wait_s, now - queue.take(starting))
            started[now], running = starting, running + starting
        refused = max(0, queue.size - QUEUE)
        if refused:
            queue.take(refused)
        oldest = now - queue.waiting[0][0] if queue.waiting else 0
        load = ModelLoad(running + queue.size, oldest, now - ended_at, complete=True)
        before = scaler.desired
        wanted = scaler.decide(load, bounds, EnginesSeen(ready, drained=drained), float(now))
        drained = scaler.draining
        if wanted != before:
            lived.changes.append((now, wanted - before))
        ready_at = sorted(ready_at)[:wanted] + [now + START_S] * (wanted - len(ready_at))
        lived.engines.append(len(ready_at))
        lived.running.append(running)
        lived.waiting.append(queue.size)
        lived.refused.append(refused)
    return lived
