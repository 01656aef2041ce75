"""The API server for who reads everything again and again: a list is made once, and kept by a watch from then on.

Only what is asked for is kept, from when it is first asked for. What a write of ours answered is seen by the next read.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType

from conch_operator.kubernetes.api.backoff import Attempts
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.api.object_selection import ObjectSelection
from conch_operator.kubernetes.api.watched_list import WatchedList


class CachingApi(KubernetesApi):
    """One connection pool to one API server, with the lists that its watches keep."""

    def __init__(self, may_write: Callable[[], bool], attempts: Attempts, silent_s: float) -> None:
        """Trust a watch until it has said nothing for `silent_s`."""
        super().__init__(may_write, attempts)
        self._silent_s = silent_s
        self._changed: list[Callable[[], None]] = []
        self._known_again: list[Callable[[], None]] = []
        self._seen: dict[tuple[Kind, str | None], Callable[[Object], None]] = {}
        self._kept: dict[ObjectSelection, WatchedList] = {}
        self._tasks: dict[ObjectSelection, asyncio.Task[None]] = {}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await super().__aexit__(kind, error, trace)

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call this at every change of what is kept, but for our own."""
        self._changed.append(changed)

    def on_known_again(self, known_again: Callable[[], None]) -> None:
        """Call this when a list is kept again that could not be read."""
        self._known_again.append(known_again)

    def on_seen(self, kind: Kind, labels: str | None, seen: Callable[[Object], None]) -> None:
        """Call this with each object that comes or changes, but for our own writes, of those kept with these labels."""
        self._seen[kind, labels] = seen

    async def _complete(self, selection: ObjectSelection) -> list[Object]:
        kept = self._kept.get(selection)
        if kept is None:
            seen = partial(self._note_object, selection)
            kept = WatchedList(
                self, selection, self._note_change, self._silent_s, seen=seen, known_again=self._note_known_again
            )
            self._kept[selection] = kept
            self._tasks[selection] = asyncio.create_task(kept.run(), name=f"watch of {selection.path}")
        try:
            return await kept.read()
        finally:
            if (task := self._tasks[selection]).done():
                task.result()  # a fault of the code, which is to end the process

    def _wrote(self, answer: Object) -> None:
        deleted = answer.get("details", {}).get("uid") if answer.get("kind") == "Status" else None
        for kept in self._kept.values():
            if deleted is not None:
                kept.forget(deleted)
            else:
                kept.note(answer)

    def _note_change(self) -> None:
        for changed in self._changed:
            changed()

    def _note_known_again(self) -> None:
        for known_again in self._known_again:
            known_again()

    def _note_object(self, selection: ObjectSelection, item: Object) -> None:
        seen = self._seen.get((selection.kind, selection.labels))
        if seen is not None:
            seen(item)
