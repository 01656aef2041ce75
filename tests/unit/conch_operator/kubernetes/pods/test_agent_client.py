"""What an agent may answer, and what is taken for no answer; with a real HTTP server in its place."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from conch_operator.agent.pool_messages import PoolQuestion
from conch_operator.agent.tokens import AgentOwner
from conch_operator.kubernetes.pods import agent_client
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from testkit.builders.every_runtime import TOKENS
from testkit.servers.catch_all_http import every_path

AGENT = AgentAddress("127.0.0.1", AgentOwner("ns", "engine", "m"))
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def bundle_of(answer: Answer) -> tuple[str, bytes]:
    async with every_path(answer) as port, Agents(TOKENS, port) as agents:
        return await agents.bundle(AGENT)


def says(body: bytes = b"", status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers=headers)

    return answer


async def test_a_bundle_comes_with_its_digest_to_who_has_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_client, "MAX_BUNDLE_BYTES", 10)
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["authorization"])
        return web.Response(body=b"0123456789", headers={"x-conch-digest": "d"})

    assert await bundle_of(answer) == ("d", b"0123456789")
    assert seen == [f"Bearer {TOKENS.token(AGENT.owner)}"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (says(status=401), "does not know this operator's token"),
        (says(status=500), "answers 500"),
        (says(b"0123456789x"), "answers 200"),
        (says(status=307, location="/other"), "answers 307"),
    ],
)
async def test_any_other_answer_is_none(answer: Answer, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_client, "MAX_BUNDLE_BYTES", 10)
    with pytest.raises(AgentUnavailable, match=message):
        await bundle_of(answer)


async def test_a_report_that_cannot_be_read_is_no_answer() -> None:
    async with every_path(says(b'{"facts": 1}')) as port, Agents(TOKENS, port) as agents:
        with pytest.raises(AgentUnavailable, match="cannot read"):
            await agents.source(AGENT)


async def test_an_agent_that_hangs_or_is_not_there_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_client, "_ANSWER_S", 0.1)

    async def answer(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with every_path(answer) as port, Agents(TOKENS, port) as agents, asyncio.timeout(60):
        for call in (agents.source, agents.release, agents.request_restart):
            with pytest.raises(AgentUnavailable, match=r"does not answer within 0\.1 s$"):
                await call(AGENT)
    async with Agents(TOKENS, 9) as agents:
        with pytest.raises(AgentUnavailable, match="does not answer: Connection refused"):
            await agents.source(AGENT)


async def test_who_waits_for_news_holds_up_no_other_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_client, "AT_ONCE", 1)
    waits = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/models/report":
            waits.set()
            await asyncio.Event().wait()
        return web.Response(body=b"{}")

    async with every_path(answer) as port, Agents(TOKENS, port) as agents, asyncio.timeout(60):
        waiting = asyncio.create_task(agents.pool_report(AGENT, PoolQuestion(wait_s=60)))
        await waits.wait()
        await agents.source(AGENT)
        waiting.cancel()
