"""What kopf does with our settings, on an API server that serves models and says what a test wants."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from conch_operator.kubernetes import watches
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Kind
from conch_operator.kubernetes.watches import KopfHangs, watching
from testkit.servers.catch_all_http import every_path
from testkit.waiting import eventually

GROUP = {"version": MODEL_DEPLOYMENT.version}


class ApiServer:
    """Answers as an API server does; a watch says what was put into its kind's queue, and ends never."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.queues: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self.seen: list[dict[str, Any]] = []
        self.hung = 0
        """How many lists are to hang."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        kind = MODEL_DEPLOYMENT
        if request.path == kind.path("ns"):
            return await self._objects(request, kind)
        served = {
            "/api/v1": ("namespaces", "Namespace"),
            kind.path(None).removesuffix(f"/{kind.plural}"): (kind.plural, kind.name),
        }
        if request.path in served:
            plural, name = served[request.path]
            verbs = {"namespaced": True, "singularName": "", "verbs": ["list", "watch"]}
            return web.json_response({"resources": [{"name": plural, "kind": name, **verbs}]})
        group = {"name": kind.group, "versions": [GROUP], "preferredVersion": GROUP}
        return web.json_response({"versions": ["v1"], "groups": [group]})

    async def _objects(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        if "watch" not in request.query:
            if self.hung:
                self.hung -= 1
                await asyncio.Event().wait()
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        queue = self.queues[kind.plural] = asyncio.Queue()
        self.opened.append(kind.plural)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(json.dumps(await queue.get()).encode() + b"\n")

    def say(self, what: str, kind: Kind, version: str) -> None:
        meta = {"name": "one", "namespace": "ns", "uid": "u", "resourceVersion": version}
        made = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}
        self.queues[kind.plural].put_nowait({"type": what, "object": made})


@asynccontextmanager
async def watched(server: ApiServer, folder: Path, patch: pytest.MonkeyPatch, stale_s: float) -> AsyncIterator[None]:
    """Watch what this server says."""
    async with every_path(server.answer) as port:
        file = folder / "kubeconfig"
        named = {
            "cluster": {"server": f"http://127.0.0.1:{port}"},
            "user": {},
            "context": {"cluster": "c", "user": "c"},
        }
        lists = {f"{what}s": [{"name": "c", what: content}] for what, content in named.items()}
        file.write_text(json.dumps({"current-context": "c", **lists}))
        patch.setenv("KUBECONFIG", str(file))
        async with watching(server.seen.append, ["ns"], stale_s):
            await eventually(lambda: server.opened, "the watch")
            yield


def versions(server: ApiServer) -> list[str]:
    return [item["metadata"]["resourceVersion"] for item in server.seen]


async def test_a_model_is_told_of_while_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    async with watched(server, tmp_path, monkeypatch, stale_s=60):
        for version, what in (("2", "ADDED"), ("3", "DELETED"), ("4", "ADDED")):
            server.say(what, MODEL_DEPLOYMENT, version)
            if what == "ADDED":
                await eventually(lambda version=version: versions(server)[-1:] == [version], f"version {version}")  # type: ignore[misc]
    assert versions(server) == ["2", "4"]
    assert {item["kind"] for item in server.seen} == {MODEL_DEPLOYMENT.name}
    assert server.queries[-1]["timeoutSeconds"] == "48"


async def test_a_watch_that_says_nothing_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    async with watched(server, tmp_path, monkeypatch, stale_s=0.5):
        await eventually(lambda: len(server.opened) >= 2, "another watch")

        def is_told() -> bool:
            server.say("ADDED", MODEL_DEPLOYMENT, "2")  # into the latest watch; it may be the next already
            return bool(server.seen)

        await eventually(is_told, "a change that another watch tells")


async def test_a_list_that_hangs_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    server.hung = 2
    monkeypatch.setattr(watches, "LIST_S", 0.5)
    async with watched(server, tmp_path, monkeypatch, stale_s=60):
        server.say("ADDED", MODEL_DEPLOYMENT, "2")
        await eventually(lambda: server.seen, "a change that a watch tells")
    assert server.hung == 0


async def test_a_kopf_that_does_not_stop_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    async def hang(**_: object) -> None:
        goes_on.wait()

    monkeypatch.setattr(watches.kopf, "operator", hang)
    monkeypatch.setattr(watches, "STOP_S", 0.01)
    try:
        with pytest.raises(KopfHangs):
            async with watching(lambda _: None, ["ns"], stale_s=60):
                pass
    finally:
        goes_on.set()
