"""Objects of a played cluster as watches tell of them: to list a thousand again and again would be load of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from testkit.fleet.api import Api, Object


class WatchedObjects:
    """What is there now, by name."""

    def __init__(self, api: Api, path: str) -> None:
        self._api = api
        self._path = path
        self._objects: dict[str, Object] = {}
        self._version: dict[str, str] = {}
        """The query that goes on where the last watch has ended."""
        self._failure: Exception | None = None
        self._over = threading.Event()

    def all(self) -> list[Object]:
        """Return all; raises what has ended the watches."""
        if self._failure is not None:
            raise self._failure
        return list(self._objects.values())

    def follow(self) -> None:
        """Take over what watches tell; the API server ends one of a reader that falls behind."""
        try:
            while not self._over.is_set():
                with self._api.watch(self._path, **self._version) as events:
                    self._take(events)
        except Exception as error:  # noqa: BLE001 - it is raised where the objects are asked for
            self._failure = error

    def end(self) -> None:
        """Begin no other watch; the last one ends with the cluster."""
        self._over.set()

    def _take(self, events: Iterator[Object]) -> None:
        for event in events:
            found = event["object"]
            self._version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            if event["type"] == "DELETED":
                self._objects.pop(found["metadata"]["name"], None)
            else:
                self._objects[found["metadata"]["name"]] = found


@contextmanager
def watched(api: Api, path: str) -> Iterator[WatchedObjects]:
    """Keep the objects of a path for the length of the context."""
    found = WatchedObjects(api, path)
    threading.Thread(target=found.follow, daemon=True).start()
    try:
        yield found
    finally:
        found.end()
