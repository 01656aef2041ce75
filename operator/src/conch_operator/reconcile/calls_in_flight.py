"""Calls that are each about one thing, none of which waits for another.

A round starts those that it needs and takes along what they say at once. One that takes longer goes on beside the
rounds; its end begins another, which takes its result. So what takes long about one model holds up no other.

A round that had looked before such a call ended knows less than the call has said, so it does not begin it again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

AT_ONCE = 16
"""Calls of one sort at a time; more wait for these."""
AGAIN_S = 1.0
"""Until a call is made again that got no answer, if nothing else begins a round."""


@dataclass(frozen=True, slots=True)
class Background:
    """Where calls go on that a round does not wait for."""

    start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] = asyncio.create_task
    changed: Callable[[], None] = lambda: None
    """Hears of a call that ended after its round had gone on."""
    patience_s: float | None = None
    """How long a round waits for the calls that it has started; None: until they end."""

    def changed_in(self, seconds: float) -> None:
        """Have a round begin after so long, for what nothing else will tell of."""
        asyncio.get_running_loop().call_later(seconds, self.changed)


AWAITED = Background()
"""For callers that wait for all that they start."""


@dataclass(slots=True)
class _Ended(Generic[Result]):
    result: Result


class CallsInFlight(Generic[Key, Result]):
    """Calls of one sort, at most one for each key."""

    def __init__(self, background: Background = AWAITED, at_once: int = AT_ONCE) -> None:
        self._background = background
        self._slots = asyncio.Semaphore(at_once)
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._ended: dict[Key, _Ended[Result] | Exception] = {}
        self._awaited: frozenset[Key] = frozenset()

    def start(self, calls: Mapping[Key, Callable[[], Awaitable[Result]]]) -> None:
        """Start those whose key has none in flight."""
        for key, call in calls.items():
            if key not in self._tasks:
                self._tasks[key] = self._background.start(self._call(key, call))

    async def run(self, calls: Mapping[Key, Callable[[], Awaitable[Result]]]) -> dict[Key, Result]:
        """Start them, wait a moment for those that are new, and return what has ended since the last time.

        One that has ended since then is not started again before the next round, which is begun for it: what it came to
        is news to the caller. Raises the first error among those that have ended; what the others returned is lost
        then, so it is for calls that may be made again.
        """
        new = {key: call for key, call in calls.items() if key not in self._ended}
        if len(new) < len(calls):
            self._background.changed()
        self._awaited = frozenset(key for key in new if key not in self._tasks)
        self.start(new)
        if self._awaited:
            await asyncio.wait([self._tasks[key] for key in self._awaited], timeout=self._background.patience_s)
        self._awaited = frozenset()
        ended, self._ended = self._ended, {}
        for outcome in ended.values():
            if isinstance(outcome, Exception):
                raise outcome
        return {key: outcome.result for key, outcome in ended.items() if isinstance(outcome, _Ended)}

    @property
    def waiting(self) -> frozenset[Key]:
        """Return the keys of the calls that go on."""
        return frozenset(self._tasks)

    async def _call(self, key: Key, call: Callable[[], Awaitable[Result]]) -> None:
        try:
            async with self._slots:
                self._ended[key] = _Ended(await call())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is taken
            self._ended[key] = error
        finally:
            del self._tasks[key]
        if key not in self._awaited:
            self._background.changed()
