import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from conch_kit.bundles.archive import digest
from conch_operator.agent import app
from conch_operator.agent.app import make_app
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.termination import EngineTermination
from conch_operator.agent.tokens import token_sha256
from conch_operator.model_folder.reader import FolderNeeds
from testkit.waiting import eventually

TOKEN = b"a-token"


class Agent:
    def __init__(self, path: Path) -> None:
        self.restarts = 0
        self.runs = True
        self.path = path
        self.termination = EngineTermination(0.01)
        folder = FolderReporter(path, "/models/tiny", FolderNeeds(weights=True, config=True))
        self._app = make_app(folder, self.termination, token_sha256(TOKEN), self._restart)

    def _restart(self) -> bool:
        self.restarts += self.runs
        return self.runs

    async def ask(self, method: str, path: str, *authorization: bytes) -> tuple[int, bytes]:
        """Ask as the operator does; with `authorization`, with these headers instead."""
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError("no request has a body")

        headers = [(b"authorization", value) for value in authorization or (b"Bearer " + TOKEN,) if value]
        await self._app({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 1}}}))
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 8}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    return Agent(tmp_path)


async def test_it_says_what_the_folder_says_and_hands_over_the_bundle(agent: Agent) -> None:
    status, body = await agent.ask("GET", "/source")
    facts = json.loads(body)["facts"]
    assert (status, facts["vocab_size"], facts["folder"]) == (200, 2, "/models/tiny")
    _, bundle = await agent.ask("GET", "/bundle")
    assert digest(bundle) == facts["digest"]


async def test_who_asks_again_and_again_about_a_disk_that_hangs_makes_it_no_worse(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "LONGEST_READ_S", 0.05)
    (agent.path / "tokenizer.json").unlink()
    os.mkfifo(agent.path / "tokenizer.json")  # whoever reads it waits for a writer
    try:
        async with asyncio.timeout(30):
            said = {(*await agent.ask("GET", "/source"), len(asyncio.all_tasks())) for _ in range(5)}
        assert said == {(503, app.DISK_HANGS, 2)}
    finally:
        await asyncio.to_thread((agent.path / "tokenizer.json").write_text, "{}")
    await eventually(lambda: len(asyncio.all_tasks()) == 1, "the end of the one that reads")


async def test_a_fault_names_the_folder_as_the_engine_sees_it_and_may_be_mended(agent: Agent) -> None:
    (agent.path / "model.safetensors").unlink()
    _, body = await agent.ask("GET", "/source")
    fault = json.loads(body)["fault"]
    assert fault["reason"] == "FilesMissing"
    assert fault["message"].startswith("/models/tiny has no *.safetensors")
    (agent.path / "model.safetensors").write_bytes(b"")
    _, body = await agent.ask("GET", "/source")
    assert json.loads(body)["fault"] is None


async def test_the_end_waits_until_the_engine_is_let_go() -> None:
    termination = EngineTermination(60)
    waiting = asyncio.create_task(termination.wait_until_allowed())
    await asyncio.sleep(0)
    assert not waiting.done()
    termination.allow()
    await waiting


async def test_the_end_of_what_has_ended_is_not_waited_for() -> None:
    ended = False
    termination = EngineTermination(60, lambda: ended)
    waiting = asyncio.create_task(termination.wait_until_allowed())
    await asyncio.sleep(0)
    assert not waiting.done()
    ended = True
    await asyncio.wait_for(waiting, 30)


async def test_the_end_waits_no_longer_than_it_may(agent: Agent) -> None:
    assert (await agent.ask("GET", "/withdrawn"))[0] == 200


async def test_the_operator_has_the_engine_started_again(agent: Agent) -> None:
    assert (await agent.ask("POST", "/condemned"))[0] == 200
    assert agent.restarts == 1
    agent.runs = False
    status, why = await agent.ask("POST", "/condemned")
    assert (status, agent.restarts) == (409, 1)
    assert b"tritonserver" in why


async def test_a_folder_without_a_tokenizer_has_no_bundle(agent: Agent) -> None:
    for file in agent.path.glob("*.json"):
        file.unlink()
    status, body = await agent.ask("GET", "/bundle")
    assert (status, b"holds no tokenizer files" in body) == (409, True)


async def test_other_paths_are_unknown(agent: Agent) -> None:
    assert (await agent.ask("GET", "/metrics"))[0] == 404


async def test_a_folder_that_is_being_downloaded_is_awaited(tmp_path: Path) -> None:
    folder = FolderReporter(
        tmp_path / "tiny", "/conch/source/tiny", FolderNeeds(weights=False, config=False), downloads=True
    )

    async def told() -> tuple[str, str]:
        fault = (await folder.report()).fault
        assert fault is not None
        return fault.reason, fault.message

    assert await told() == ("Waiting", "The model's files are awaited.")
    draft = tmp_path / ".tiny.draft"
    (draft / ".conch-parts").mkdir(parents=True)
    (draft / ".conch-download.json").write_text(json.dumps({"version": "1", "bytes": 2_000_000}))
    (draft / ".conch-parts" / "model.safetensors").write_bytes(bytes(900_000))
    assert await told() == ("Downloading", "The model's files are on their way: 40 % of 2.0 MB.")
    assert (await told())[0] == "Waiting", "nothing has come since"
    (draft / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    draft.rename(tmp_path / "tiny")
    assert (await folder.report()).facts is not None


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/source"), ("GET", "/bundle"), ("POST", "/withdrawn"), ("POST", "/condemned")]
)
@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param((b"",), id="none"),
        pytest.param((b"Bearer another",), id="another token"),
        pytest.param((b"Bearer ",), id="an empty one"),
        pytest.param((b"Basic " + TOKEN,), id="another scheme"),
        pytest.param((TOKEN,), id="no scheme"),
        pytest.param((b"Bearer " + token_sha256(TOKEN).encode(),), id="what the pod shows"),
        pytest.param((b"Bearer " + TOKEN, b"Bearer another"), id="two"),
    ],
)
async def test_only_the_operator_may_ask_and_change(
    agent: Agent, method: str, path: str, authorization: tuple[bytes, ...]
) -> None:
    status, body = await agent.ask(method, path, *authorization)
    assert status == 401
    assert b"Only the operator may ask this." in body
    assert agent.restarts == 0
    assert not agent.termination.is_allowed


async def test_what_the_kubelet_asks_needs_no_token(agent: Agent) -> None:
    statuses = [(await agent.ask("GET", path, b""))[0] for path in ("/livez", "/withdrawn", "/none")]
    assert statuses == [200, 200, 404]
