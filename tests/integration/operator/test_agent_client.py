"""The client of agents, against a real agent, and against pods that are none."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from pydantic import SecretStr

from conch_operator.agent.tokens import AgentOwner, AgentTokens
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from testkit.builders.every_runtime import TOKENS
from testkit.processes.conch_up import free_port, wait_until
from testkit.processes.tied import tied
from testkit.servers.scripted_http import Call, ScriptedHttp

ADDRESS = AgentAddress("127.0.0.1", AgentOwner("models", "engine", "tiny"))


async def test_a_pod_sends_the_operator_nowhere_else() -> None:
    async def elsewhere(call: Call) -> None:
        await call.answer(b"", status=307, headers={"location": "/other"})

    async with ScriptedHttp(elsewhere) as server, Agents(TOKENS, urlsplit(server.url).port or 0) as agents:
        with pytest.raises(AgentUnavailable, match="answers 307"):
            await agents.request_restart(ADDRESS)
    assert len(server.calls) == 1


async def test_an_agent_is_asked_with_its_own_token_and_one_that_does_not_know_it_is_named() -> None:
    async def refuses(call: Call) -> None:
        await call.answer(b"", status=401)

    async with ScriptedHttp(refuses) as server, Agents(TOKENS, urlsplit(server.url).port or 0) as agents:
        with pytest.raises(AgentUnavailable, match="does not know this operator's token") as raised:
            await agents.release(ADDRESS)
    (call,) = server.calls
    assert call.headers["authorization"] == f"Bearer {TOKENS.token(ADDRESS.owner)}"
    assert TOKENS.token(ADDRESS.owner) not in str(raised.value)


@pytest.mark.parametrize(("size", "taken"), [(10, True), (11, False), (1000, False)])
async def test_a_bundle_that_is_larger_than_any_is_not_taken(
    size: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conch_operator.kubernetes.pods.agent_client.MAX_BUNDLE_BYTES", 10)

    async def large(call: Call) -> None:
        await call.answer(b"x" * size, headers={"x-conch-digest": "d"})

    async with ScriptedHttp(large) as server, Agents(TOKENS, urlsplit(server.url).port or 0) as agents:
        if taken:
            assert await agents.bundle(ADDRESS) == ("d", b"x" * size)
        else:
            with pytest.raises(AgentUnavailable):
                await agents.bundle(ADDRESS)


async def test_no_more_is_read_of_a_bundle_without_end_than_the_largest_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_operator.kubernetes.pods.agent_client.MAX_BUNDLE_BYTES", 1_000_000)

    async def endless(call: Call) -> None:
        await call.begin()
        with suppress(ConnectionError):
            for _ in range(1000):
                await call.chunk(b"x" * 65536)
            await call.closed()

    async with ScriptedHttp(endless) as server, Agents(TOKENS, urlsplit(server.url).port or 0) as agents:
        with pytest.raises(AgentUnavailable, match="answers 200"):
            await agents.bundle(ADDRESS)


@contextmanager
def running_agent(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the process and the port of an agent that was told what a pod of ADDRESS' owner is told."""
    port = free_port()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
    told = {"folder": folder, "shown_folder": "/models/tiny", "port": port, "host": "127.0.0.1"}
    environ |= {f"CONCH_{name.upper()}": str(value) for name, value in told.items()}
    environ["CONCH_TOKEN_SHA256"] = TOKENS.told(ADDRESS.owner)
    process = subprocess.Popen(tied([sys.executable, "-m", "conch_operator.agent.main"]), env=environ)
    try:
        wait_until(lambda: process.poll() is not None or _answers(port), "the agent", 60)
        assert process.poll() is None
        yield process, port
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[int]:
    """Give the port of an agent."""
    with running_agent(tmp_path) as (_, port):
        yield port


def test_an_agent_that_is_to_end_waits_for_no_end_of_its_engine(tmp_path: Path) -> None:
    with (
        running_agent(tmp_path) as (process, port),
        socket.create_connection(("127.0.0.1", port)) as hook,
    ):
        hook.sendall(b"GET /withdrawn HTTP/1.1\r\nhost: agent\r\n\r\n")  # is answered after 45 s
        assert _answers(port), "what came before this was read"
        process.terminate()
        assert process.wait(30) == 0


async def test_a_real_agent_answers_the_operator_of_its_release_and_nobody_else(agent: int) -> None:
    async with Agents(TOKENS, agent) as ours:
        assert (await ours.source(ADDRESS)).fault is not None
        await ours.release(ADDRESS)
    async with Agents(AgentTokens(SecretStr("another release's")), agent) as theirs:
        for ask in (theirs.source, theirs.bundle, theirs.release, theirs.request_restart):
            with pytest.raises(AgentUnavailable, match="does not know this operator's token"):
                await ask(ADDRESS)


def _answers(port: int) -> bool:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/livez", timeout=5) as answer:
        return bool(answer.status == 200)
    return False
