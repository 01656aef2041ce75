"""The client of agents, against pods that are none."""

from urllib.parse import urlsplit

import pytest

from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from testkit.servers.scripted_http import Call, ScriptedHttp


async def test_a_pod_sends_the_operator_nowhere_else() -> None:
    async def elsewhere(call: Call) -> None:
        await call.answer(b"", status=307, headers={"location": "/other"})

    async with ScriptedHttp(elsewhere) as server, Agents(urlsplit(server.url).port or 0) as agents:
        with pytest.raises(AgentUnavailable, match="answers 307"):
            await agents.request_restart("127.0.0.1")
    assert len(server.calls) == 1
