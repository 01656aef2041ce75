"""An API server that keeps the Deployments of one namespace, with their history: lists in pages, and watches."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from testkit.servers.catch_all_http import every_path

PATH = "/apis/apps/v1/namespaces/ns/deployments"
_CUT, _END = b"cut", b"end"

Item = dict[str, Any]


class WatchedServer:
    """What a test sees of it, and does to it. It is strict: a query that no API server knows is refused."""

    def __init__(self) -> None:
        self.version = 100
        self.items: dict[str, Item] = {}
        self.asked: list[dict[str, str]] = []
        self.accepted: list[str] = []
        self.watches: list[asyncio.Queue[bytes]] = []
        self.away = False
        """Whether it hangs up on everybody who asks."""
        self.quiet = False
        """Whether watches tell nothing for the moment."""
        self.expires_pages = 0
        """How many second pages of lists are too old."""
        self._history: list[tuple[int, bytes]] = []
        self._known_since = 0
        self._untold: list[bytes] = []

    def lists(self) -> int:
        """Return how many lists have begun."""
        return sum("watch" not in query and "continue" not in query for query in self.asked)

    def put(self, name: str, said: str = "", **labels: str) -> Item:
        """Make or change an object."""
        self.version += 1
        before = self.items.get(name)
        meta: dict[str, Any] = {
            "name": name,
            "namespace": "ns",
            "uid": before["metadata"]["uid"] if before else f"uid-{self.version}",
        }
        meta |= {"resourceVersion": str(self.version), "labels": {"kept": "yes"} | labels}
        meta |= {"managedFields": [{"manager": "somebody"}], "annotations": {"said": said}}
        self.items[name] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": 1}}
        self._tell("MODIFIED" if before else "ADDED", self.items[name])
        return self.items[name]

    def remove(self, name: str) -> None:
        """Delete an object."""
        self.version += 1
        item = self.items.pop(name)
        self._tell("DELETED", item | {"metadata": item["metadata"] | {"resourceVersion": str(self.version)}})

    def bookmark(self) -> None:
        """Say how far the watches have come."""
        self._say(event_line("BOOKMARK", {"kind": "Deployment", "metadata": {"resourceVersion": str(self.version)}}))

    def forget_history(self) -> None:
        """Let a watch go on only from now."""
        self._history.clear()
        self._known_since = self.version

    def expire(self) -> None:
        """Say in the watches that they are too old."""
        self.forget_history()
        self._say(event_line("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"}))

    def cut(self, *, as_if_complete: bool = False) -> None:
        """End the watches in the middle of an event; a proxy between may end the answer as if that were all."""
        self._say(b'{"type": "DELETED", "object": {"metadata": {"name"', _END if as_if_complete else _CUT)

    def tell_next(self) -> None:
        """Tell the first thing that was kept back."""
        self._say(self._untold.pop(0))

    def speak(self) -> None:
        """Tell all that was kept back, and what comes."""
        self.quiet = False
        while self._untold:
            self.tell_next()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        assert request.path.startswith(PATH), request.path
        if self.away:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        name = request.path.removeprefix(PATH).removeprefix("/")
        match request.method:
            case "PATCH":
                made = await request.json()
                return web.json_response(self.put(name, made["metadata"]["annotations"]["said"]))
            case "DELETE":
                uid = self.items[name]["metadata"]["uid"]
                self.remove(name)
                return web.json_response({"kind": "Status", "status": "Success", "details": {"uid": uid}})
        query = dict(request.query)
        self.asked.append(query)
        self.accepted.append(request.headers["Accept"])
        return await self._watch(request, query) if "watch" in query else self._list(query)

    def _list(self, query: dict[str, str]) -> web.Response:
        assert query.keys() <= {"limit", "continue", "labelSelector"}, query
        version, begin = map(int, query.get("continue", f"{self.version}/0").split("/"))
        if begin and self.expires_pages:
            self.expires_pages -= 1
            return web.json_response({"message": "the continue token is too old"}, status=410)
        end = begin + int(query["limit"])
        items = list(self.items.values())
        meta = {"resourceVersion": str(version)} | ({"continue": f"{version}/{end}"} if end < len(items) else {})
        return web.json_response({"metadata": meta, "items": items[begin:end] or None})

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        known = {"watch", "allowWatchBookmarks", "resourceVersion", "timeoutSeconds", "labelSelector"}
        assert query.keys() <= known, query
        since = int(query["resourceVersion"])
        if since < self._known_since:
            return web.json_response({"message": "too old resource version"}, status=410)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for version, line in self._history:
            if version > since:
                queue.put_nowait(line)
        self.watches.append(queue)
        response = web.StreamResponse()
        await response.prepare(request)
        while (line := await queue.get()) not in (_CUT, _END):
            await response.write(line)
        self.watches.remove(queue)
        if line is _CUT:
            assert request.transport is not None
            request.transport.close()
        return response

    def _tell(self, what: str, item: Item) -> None:
        self._history.append((self.version, event_line(what, item)))
        if self.quiet:
            self._untold.append(self._history[-1][1])
        else:
            self._say(self._history[-1][1])

    def _say(self, *lines: bytes) -> None:
        for queue in self.watches:
            for line in lines:
                queue.put_nowait(line)


def event_line(what: str, item: Item) -> bytes:
    """Return what a watch says of an object."""
    return json.dumps({"type": what, "object": item}).encode() + b"\n"


@asynccontextmanager
async def watched_server(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[WatchedServer]:
    """Serve, and let the operator's client find it as $KUBECONFIG would."""
    server = WatchedServer()
    async with every_path(server.answer) as port:
        use_server(port, folder, patch)
        yield server


def use_server(port: int, folder: Path, patch: pytest.MonkeyPatch, **cluster: str) -> None:
    """Let the client find an API server on this port, as $KUBECONFIG would that says this of its cluster besides."""
    named = {
        "cluster": {"server": f"http://127.0.0.1:{port}", **cluster},
        "user": {"token": "t"},
        "context": {"cluster": "c", "user": "c"},
    }
    lists = {f"{what}s": [{"name": "c", what: content}] for what, content in named.items()}
    (folder / "kubeconfig").write_text(json.dumps({"current-context": "c", **lists}))
    location = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"  # read when it is imported
    patch.setattr(location, str(folder / "kubeconfig"))
