"""A complete list that is kept by a watch, with what we have written ourselves and the watch has not told of yet.

The list comes once, then the watch tells of each change in turn. A watch that ends or breaks goes on from the version
that it had come to. Everything is listed again when the server does not know that version any more (410), refuses for
another reason, or says nothing, not even a bookmark, for too long.

Versions of one kind are numbers that grow, as Kubernetes documents since 1.35 and as its own caches have always taken
them. So what a write answered stands over what the watch told until the watch has come to that version: nothing older
replaces it, and nothing that has gone since comes back.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from conch_operator.kubernetes.api.backoff import Backoff
from conch_operator.kubernetes.api.client import BUSY, ApiError
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.kubernetes.api.object_selection import Event, Listed, ObjectSelection

_BACKOFF = Backoff()

STEADY_S = 1.0
"""A watch that has lasted so long is opened again without a pause.

So is one that has told of something: the API server ends the watches of those who do not take a burst of changes as
fast as it comes, and what is known is complete up to there.
"""

_Name = tuple[str, str]
"""Namespace and name."""


class Source(Protocol):
    """Lists and watches."""

    async def list_selected(self, selection: ObjectSelection) -> Listed:
        """Return a complete list; raises ApiError."""

    def watch(
        self, selection: ObjectSelection, since: str, silent_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Open a watch; it, and what it gives, raise ApiError."""


class WatchedList:
    """The objects of one selection; `run` keeps them, beside everything else."""

    def __init__(
        self,
        source: Source,
        selection: ObjectSelection,
        changed: Callable[[], None],
        silent_s: float,
        backoff: Backoff = _BACKOFF,
        clock: Callable[[], float] = time.monotonic,
        seen: Callable[[Object], None] = lambda _: None,
        known_again: Callable[[], None] = lambda: None,
    ) -> None:
        """Tell `changed` of each change but our own, and trust a watch until it has said nothing for `silent_s`.

        `seen` gets each object that has come or changed, before; `known_again` is called when the list is known after
        a time in which it was not.
        """
        self._known_again = known_again
        self._seen = seen
        self._source = source
        self._selection = selection
        self._changed = changed
        self._silent_s = silent_s
        self._backoff = backoff
        self._clock = clock
        self._objects: dict[_Name, Object] = {}
        self._written: dict[_Name, Object] = {}
        self._version = 0
        self._goes_on = False
        """Whether a watch may go on from that version."""
        self._opened_at_s: float | None = None
        self._since = 0
        """The version from which that watch was to go on."""
        self._error: ApiError | None = None
        self._known = asyncio.Event()

    async def read(self) -> list[Object]:
        """Return what is there; raises ApiError while that is not known."""
        await self._known.wait()
        if self._error is not None:
            raise self._error.with_traceback(None)  # else it would grow with each time
        return list((self._objects | self._written).values())

    def note(self, answer: Object) -> None:
        """Take over what a write of ours answered about an object, if it is one of these."""
        if self._selection.has(answer) and _number(answer) > self._version:
            self._written[_name(answer)] = self._selection.trimmed(answer)

    def forget(self, uid: str) -> None:
        """Leave out an object that we have deleted."""
        for kept in (self._objects, self._written):
            for name in [name for name, item in kept.items() if item["metadata"]["uid"] == uid]:
                del kept[name]

    async def run(self) -> None:
        """Keep the list until it is cancelled."""
        failures = 0
        try:
            while True:
                went_on, error = self._goes_on, await self._follow()
                if self._has_helped():
                    failures = 0
                    continue
                failures += 1
                if went_on and not self._goes_on and failures == 1:
                    continue  # it is to be listed again, which nobody has tried yet
                self._error = error
                self._known.set()
                await asyncio.sleep(self._backoff.pause_s(failures))
        finally:
            self._known.set()  # who waits finds the error of this task

    def _has_helped(self) -> bool:
        """Return whether the watch that has ended has lasted for a while, or told of something."""
        if self._opened_at_s is None:
            return False
        return self._version > self._since or self._clock() - self._opened_at_s >= STEADY_S

    async def _follow(self) -> ApiError:
        """List if that is needed, then do what a watch tells; return why it has ended."""
        self._opened_at_s = None
        try:
            if not self._goes_on:
                self._replace(await self._source.list_selected(self._selection))
            async with self._source.watch(self._selection, str(self._version), self._silent_s) as events:
                self._opened_at_s, self._since = self._clock(), self._version
                self._is_kept()
                async for event in events:
                    self._take(event)
        except ApiError as error:
            self._goes_on = self._goes_on and error.status in (0, BUSY)
            return error
        return ApiError(0, f"a watch of {self._selection.path} ended as soon as it was opened")

    def _replace(self, listed: Listed) -> None:
        version = int(listed.version)
        if version < self._version:  # the server's store is that of an earlier time
            self._written.clear()
        self._objects = {_name(item): self._selection.trimmed(item) for item in listed.items}
        self._move_to(version)
        self._goes_on = True
        self._is_kept()
        self._changed()

    def _take(self, event: Event) -> None:
        version, is_news = _number(event.object), False
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            name = _name(event.object)
            is_news = name not in self._written or _number(self._written[name]) != version
            self._objects.pop(name, None)
            if event.type != "DELETED":
                self._objects[name] = self._selection.trimmed(event.object)
        self._move_to(version)
        if is_news:
            if event.type != "DELETED":
                self._seen(self._objects[name])
            self._changed()

    def _move_to(self, version: int) -> None:
        self._version = version
        if self._written:
            self._written = {name: item for name, item in self._written.items() if _number(item) > version}

    def _is_kept(self) -> None:
        if self._error is not None:
            self._error = None
            self._known_again()
            self._changed()
        self._known.set()


def _name(item: Object) -> _Name:
    meta = item["metadata"]
    return meta["namespace"], meta["name"]


def _number(item: Object) -> int:
    return int(item["metadata"]["resourceVersion"])
