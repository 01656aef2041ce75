"""What answers each path beside inference: one function per method and path, whose result is the body of the answer."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from conch_gateway.http.exchange import Exchange
from conch_kit.errors import MethodNotAllowed, NotFound
from conch_kit.http.asgi import Message, Receive

_PART = re.compile(r"\{(\w+)(:path)?\}")


async def gone() -> Message:
    """Receive nothing."""
    return {"type": "http.disconnect"}


@dataclass(frozen=True, slots=True)
class PathRequest:
    """A request; few of those that are served so have a body."""

    exchange: Exchange
    parts: Mapping[str, str]
    """What stands in the path where its pattern has names."""
    query: str
    """Behind the question mark."""
    receive: Receive = gone
    """Where a body comes from."""


@dataclass(frozen=True, slots=True)
class Answer:
    """JSON, and its status."""

    body: bytes
    status: int = 200


Endpoint = Callable[[PathRequest], Awaitable[Answer]]
"""Raises a ServiceError."""


class Paths:
    """Finds the endpoint of a method and a path."""

    def __init__(self, endpoints: Mapping[tuple[str, str], Endpoint], posts: Collection[str]) -> None:
        """`endpoints` are by method and path. In a path `{name}` is one part and `{name:path}` the rest.

        `posts` are the paths that take a POST which is served elsewhere.
        """
        self._exact: dict[str, dict[str, Endpoint]] = {}
        patterns: dict[str, dict[str, Endpoint]] = {}
        for (method, path), endpoint in endpoints.items():
            (patterns if "{" in path else self._exact).setdefault(path, {})[method] = endpoint
        self._patterns = [(_compiled(path), methods) for path, methods in patterns.items()]
        self._posts = posts

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint and the parts of the path that its pattern names; raises NotFound, MethodNotAllowed."""
        methods, parts = self._at(path)
        endpoint = methods.get(method)
        if endpoint is not None:
            return endpoint, parts
        allowed = [*methods, *(["POST"] if path in self._posts else [])]
        if not allowed:
            raise NotFound("Nothing is served under this path.")
        raise MethodNotAllowed("This method is not allowed here.", allow=", ".join(allowed))

    def _at(self, path: str) -> tuple[Mapping[str, Endpoint], Mapping[str, str]]:
        if path in self._exact:
            return self._exact[path], {}
        for pattern, methods in self._patterns:
            found = pattern.fullmatch(path)
            if found is not None:
                return methods, found.groupdict()
        return {}, {}


def _compiled(path: str) -> re.Pattern[str]:
    return re.compile(_PART.sub(lambda part: rf"(?P<{part[1]}>{'.+' if part[2] else '[^/]+'})", path), re.DOTALL)
