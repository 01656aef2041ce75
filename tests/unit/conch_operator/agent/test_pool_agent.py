"""The agent in the pod of an EnginePool: it obeys orders and tells of changes."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.names import Digest, EngineAddress, ModelId
from conch_contracts.records import Dialect
from conch_operator.agent import pool_app
from conch_operator.agent.app import make_app
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_app import make_pool_app
from conch_operator.agent.pool_folders import PoolFolders
from conch_operator.agent.pool_messages import FolderQuestion, PoolOrder, PoolQuestion, PoolReport
from conch_operator.agent.pool_models import ChangeLog, PoolModels
from conch_operator.agent.termination import EngineTermination
from conch_operator.agent.tokens import token_sha256
from conch_operator.engine_pools.loaded_models import LoadedModels
from conch_operator.engine_pools.pooled_model import Loadable
from conch_operator.engine_pools.shared_server import SharedServer
from conch_operator.state import EngineContract, EngineName, EnginePhase
from testkit.processes.played_server import PID, play_server
from testkit.waiting import eventually

TOKEN = b"a-token"


class Triton:
    """Loads at once, or when its gate is open."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.gate: asyncio.Event | None = None

    async def repository_index(self, address: EngineAddress) -> object:
        return ()

    async def load_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        self.loads.append(model)
        if self.gate is not None:
            await self.gate.wait()

    async def unload_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        """Unload at once."""


class Agent:
    def __init__(self, tmp_path: Path) -> None:
        self.processes = tmp_path / "proc"
        self.processes.mkdir()
        (self.processes / "uptime").write_text("1")
        self.repository = tmp_path / "repository"
        changes = ChangeLog()
        self.server = PodServer(changes.note, self.processes)
        self.triton = Triton()
        shared = SharedServer(self.server, lambda: EngineAddress("127.0.0.1:8001"), self.repository, self.triton)
        self.loaded = LoadedModels(shared, changes.note)
        others = make_app(None, EngineTermination(0.01), token_sha256(TOKEN))
        models = PoolModels(self.server, self.loaded, changes)
        self._app = make_pool_app(models, PoolFolders(self.server), token_sha256(TOKEN), others)

    async def ask(
        self, path: str, said: Any = None, *, method: str = "POST", token: bytes = TOKEN
    ) -> tuple[int, bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {
                "type": "http.request",
                "body": said if isinstance(said, bytes) else said.model_dump_json().encode(),
            }

        headers = [(b"authorization", b"Bearer " + token)]
        await self._app({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    async def orders(self, **order: Any) -> PoolReport:
        status, body = await self.ask("/models", PoolOrder(**order))
        assert status == 200
        return PoolReport.model_validate_json(body)

    async def reports(self, **asked: Any) -> PoolReport:
        status, body = await self.ask("/models/report", PoolQuestion(**asked))
        assert status == 200
        return PoolReport.model_validate_json(body)

    async def has(self, **phases: EnginePhase) -> None:
        async with asyncio.timeout(30):
            report = await self.reports()
            while {engine.name: engine.phase for engine in report.models} != phases:
                report = await self.reports(agent=report.agent, changes=report.changes, wait_s=30)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    found = Agent(tmp_path)
    async with found.server:
        yield found
    await found.loaded.end()


def loadable(name: str) -> Loadable:
    contract = EngineContract(name, Dialect.ENCODER, 4)
    files = {f"{name}/config.pbtxt": "name", f"{name}/1/model.py": "code"}
    return Loadable(EngineName(name), ModelId(f"ns/{name}"), "hash", contract, Digest("d" * 64), 60.0, files)


RUNNING = EnginePhase.RUNNING


async def test_it_loads_what_it_is_told_and_lets_go_of_the_rest(agent: Agent) -> None:
    play_server(agent.processes)
    first = await agent.orders(load=(loadable("one"), loadable("two")))
    assert {engine.name for engine in first.models} == {"one", "two"}
    assert first.tokenizers == {"one": "d" * 64, "two": "d" * 64}
    await agent.has(one=RUNNING, two=RUNNING)
    assert (agent.repository / "one" / "1" / "model.py").read_text() == "code"
    await agent.orders(keep=(EngineName("two"),), load=(loadable("three"),))
    await agent.has(two=RUNNING, three=RUNNING)
    assert not (agent.repository / "one").exists()
    again = await agent.orders(keep=(EngineName("two"), EngineName("three")), restart=(EngineName("two"),))
    assert {engine.name: engine.phase for engine in again.models}["two"] is EnginePhase.STARTING
    await agent.has(two=RUNNING, three=RUNNING)


async def test_an_order_that_comes_after_a_later_one_is_not_obeyed(agent: Agent) -> None:
    play_server(agent.processes)
    await agent.orders(fence=5, number=2, load=(loadable("one"),))
    await agent.has(one=RUNNING)
    for late in ((5, 1), (4, 9)):
        await agent.orders(fence=late[0], number=late[1], load=(loadable("two"),), restart=(EngineName("one"),))
        await agent.has(one=RUNNING)
    await agent.orders(fence=6, number=1, load=(loadable("two"),))
    await agent.has(two=RUNNING)
    await agent.orders(load=(loadable("three"),))  # of an operator that does not tell
    await agent.has(three=RUNNING)


async def test_what_two_operators_order_at_once_is_loaded_once(agent: Agent) -> None:
    play_server(agent.processes)
    gate = agent.triton.gate = asyncio.Event()
    await agent.orders(fence=5, number=1, load=(loadable("one"),))
    await eventually(lambda: agent.triton.loads, "the load to begin")
    await asyncio.gather(*(agent.orders(fence=fence, number=9, load=(loadable("one"),)) for fence in (5, 6)))
    gate.set()
    await agent.has(one=RUNNING)
    await agent.orders(fence=6, number=10, load=(loadable("one"),))
    await agent.has(one=RUNNING)
    assert agent.triton.loads == ["one"]


async def test_a_report_waits_until_something_has_changed(agent: Agent) -> None:
    known = await agent.reports()
    assert (known.live, known.models) == (False, ())
    waiting = asyncio.create_task(agent.reports(agent=known.agent, changes=known.changes, wait_s=30))
    await asyncio.sleep(0)
    assert not waiting.done()
    play_server(agent.processes)
    assert (await waiting).live
    other = await agent.reports(agent="another", changes=known.changes, wait_s=30)
    assert other.agent == known.agent


async def test_a_server_that_ends_is_seen_and_its_models_are_loaded_into_the_next_one(agent: Agent) -> None:
    root = play_server(agent.processes)
    await agent.orders(load=(loadable("one"),))
    await agent.has(one=RUNNING)
    for file in ("stat", "comm"):
        (root.parent / file).unlink()
    await agent.has(one=EnginePhase.EXITED)
    assert not (await agent.reports()).live
    play_server(agent.processes, PID + 1)
    await agent.has(one=RUNNING)


def test_a_process_that_ends_while_it_is_looked_at_is_not_taken_for_the_server(tmp_path: Path) -> None:
    ended = play_server(tmp_path).parent
    (ended / "stat").unlink()
    server = PodServer(lambda: None, tmp_path)
    server.look()
    assert (server.pid, server.incarnation) == (None, 0)
    play_server(tmp_path, PID + 1)
    server.look()
    assert (server.pid, server.incarnation) == (PID + 1, 1)


async def test_it_kills_a_server_that_is_to_start_anew(agent: Agent) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import signal; signal.pause()")
    play_server(agent.processes, child.pid)
    await eventually(lambda: agent.server.pid == child.pid, "the server")
    agent.server.restart()
    assert await child.wait() == -signal.SIGKILL


async def test_a_server_that_has_just_started_is_not_the_one_that_is_to_start_anew(agent: Agent) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import signal; signal.pause()")
    now = round(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    play_server(agent.processes, child.pid, started=now)
    assert agent.server.restart_unless_new()
    assert agent.server.pid == child.pid
    child.terminate()
    assert await child.wait() == -signal.SIGTERM, "nobody has killed it"


async def test_one_that_has_run_for_a_while_is(agent: Agent) -> None:
    assert not agent.server.restart_unless_new(), "there is none"
    assert not agent.server.has_ended(), "it may be about to start"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import signal; signal.pause()")
    play_server(agent.processes, child.pid)
    assert not agent.server.has_ended()
    assert agent.server.restart_unless_new()
    assert await child.wait() == -signal.SIGKILL
    (agent.processes / str(child.pid) / "stat").unlink()
    (agent.processes / str(child.pid) / "comm").unlink()
    assert agent.server.has_ended()


async def test_only_the_operator_may_ask_and_it_must_ask_rightly(agent: Agent) -> None:
    for path in ("/models", "/models/report", "/folder", "/folder/bundle", "/withdrawn"):
        assert (await agent.ask(path, b"{}", token=b"another"))[0] == 401
    assert (await agent.ask("/folder", b"{}"))[0] == 400
    assert (await agent.ask("/models", b"none"))[0] == 400
    assert (await agent.ask("/livez", b"", method="GET"))[0] == 200
    assert (await agent.ask("/source", b"", method="GET"))[0] == 404


async def test_it_says_so_when_a_folder_cannot_be_read_in_time(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_app, "LONGEST_READ_S", 0.05)
    folder = play_server(agent.processes) / "tiny"
    folder.mkdir()
    os.mkfifo(folder / "tokenizer.json")  # whoever reads it waits for a writer
    await eventually(lambda: agent.server.pid == PID, "the server")
    question = FolderQuestion(folder="/tiny", weights=False, config=False, onnx=False)
    try:
        assert (await agent.ask("/folder", question))[0] == 503
    finally:
        await asyncio.to_thread((folder / "tokenizer.json").write_text, "{}")
