"""Objects of a played cluster as a watch tells of them: to list a thousand again and again would be load of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from testkit.fleet.api import Api, Object


class WatchedObjects:
    """What is there now, by name."""

    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}
        self._failure: Exception | None = None

    def all(self) -> list[Object]:
        """Return all; raises what has ended the watch."""
        if self._failure is not None:
            raise self._failure
        return list(self._objects.values())

    def follow(self, events: Iterator[Object]) -> None:
        """Take over what a watch tells until it ends."""
        try:
            for event in events:
                name = event["object"]["metadata"]["name"]
                if event["type"] == "DELETED":
                    self._objects.pop(name, None)
                else:
                    self._objects[name] = event["object"]
        except Exception as error:  # noqa: BLE001 - it is raised where the objects are asked for
            self._failure = error
        else:
            self._failure = RuntimeError("The API server has ended the watch.")


@contextmanager
def watched(api: Api, path: str) -> Iterator[WatchedObjects]:
    """Keep the objects of a path for the length of the context."""
    found = WatchedObjects()
    with api.watch(path) as events:
        threading.Thread(target=found.follow, args=(events,), daemon=True).start()
        yield found
