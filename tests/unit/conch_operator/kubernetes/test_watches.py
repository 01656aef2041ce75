"""What kopf does with our settings, on an API server that serves models and pods and says what a test wants."""

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
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, POD, Kind
from conch_operator.kubernetes.watches import KopfHangs, watching
from testkit.servers.catch_all_http import every_path
from testkit.waiting import eventually

GROUP = {"version": MODEL_DEPLOYMENT.version}


class ApiServer:
    """Answers as an API server does; a watch says what was put into its kind's queue, and ends never."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.selectors: dict[str, str] = {}
        self.queues: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self.seen: list[dict[str, Any]] = []
        self.hung = 0
        """How many lists are to hang."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        for kind in (MODEL_DEPLOYMENT, POD):
            if request.path == kind.path("ns"):
                return await self._objects(request, kind)
            if request.path == kind.path(None).removesuffix(f"/{kind.plural}"):
                served = {kind.plural: kind.name, "namespaces": "Namespace"}
                rest = {"namespaced": True, "singularName": "", "verbs": ["list", "watch"]}
                resources = [{"name": plural, "kind": name, **rest} for plural, name in served.items()]
                return web.json_response({"resources": resources})
        group = {"name": MODEL_DEPLOYMENT.group, "versions": [GROUP], "preferredVersion": GROUP}
        return web.json_response({"versions": [POD.version], "groups": [group]})

    async def _objects(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        self.selectors[kind.plural] = request.query.get("labelSelector", "")
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
async def watched(
    server: ApiServer, folder: Path, patch: pytest.MonkeyPatch, stale_s: float
) -> AsyncIterator[list[int]]:
    """Watch what this server says, and give a list that grows with each change."""
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
        changes: list[int] = []
        async with watching(lambda: changes.append(1), server.seen.append, ["ns"], [], stale_s):
            await eventually(lambda: len(set(server.opened)) == 2, "both watches")
            yield changes


async def test_a_change_of_a_model_or_a_pod_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    async with watched(server, tmp_path, monkeypatch, stale_s=60) as changes:
        for count, (kind, what) in enumerate([(MODEL_DEPLOYMENT, "ADDED"), (POD, "ADDED"), (POD, "DELETED")], 1):
            server.say(what, kind, str(count + 1))
            await eventually(lambda count=count: len(changes) == count, f"change {count}")  # type: ignore[misc]
    assert server.selectors == {"modeldeployments": "", "pods": "conch.dev/model-deployment"}


async def test_a_model_is_told_of_while_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    async with watched(server, tmp_path, monkeypatch, stale_s=60) as changes:
        for count, what in enumerate(["ADDED", "MODIFIED", "DELETED"], 1):
            server.say(what, MODEL_DEPLOYMENT, str(count + 1))
            await eventually(lambda count=count: len(changes) == count, f"change {count}")  # type: ignore[misc]
    assert [item["metadata"]["resourceVersion"] for item in server.seen] == ["2", "3"]
    assert {item["kind"] for item in server.seen} == {MODEL_DEPLOYMENT.name}


async def test_a_watch_that_says_nothing_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    async with watched(server, tmp_path, monkeypatch, stale_s=0.5) as changes:
        await eventually(lambda: server.opened.count("modeldeployments") >= 2, "another watch")
        before = len(changes)

        def is_told() -> bool:
            server.say("ADDED", MODEL_DEPLOYMENT, "2")  # into the latest watch; it may be the next already
            return len(changes) > before

        await eventually(is_told, "a change that another watch tells")


async def test_a_list_that_hangs_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    server.hung = 2
    monkeypatch.setattr(watches, "LIST_S", 0.5)
    async with watched(server, tmp_path, monkeypatch, stale_s=60) as changes:
        server.say("ADDED", POD, "2")
        await eventually(lambda: len(changes) == 1, "a change that a watch tells")
    assert server.hung == 0


async def test_a_kopf_that_does_not_stop_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    async def hang(**_: object) -> None:
        goes_on.wait()

    monkeypatch.setattr(watches.kopf, "operator", hang)
    monkeypatch.setattr(watches, "STOP_S", 0.01)
    try:
        with pytest.raises(KopfHangs):
            async with watching(lambda: None, lambda _: None, ["ns"], [], stale_s=60):
                pass
    finally:
        goes_on.set()


async def test_bookmarks_keep_a_watch_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    async with watched(server, tmp_path, monkeypatch, stale_s=3) as changes:
        opened = server.opened.count("modeldeployments")
        loop = asyncio.get_running_loop()
        began, said = loop.time(), 0.0

        def is_over() -> bool:
            nonlocal said
            if loop.time() - said > 0.2:
                said = loop.time()
                server.say("BOOKMARK", MODEL_DEPLOYMENT, "9")
            return server.opened.count("pods") >= 2 and loop.time() - began > 4

        await eventually(is_over, "the other watch, which hears none, to be opened again")
        assert server.opened.count("modeldeployments") == opened
        assert changes == []
