"""What the listener learns about watches: a real HTTP server that ends, refuses, or never begins them."""

from dataclasses import dataclass, field

import aiohttp
import kopf
import pytest

from conch_operator.kubernetes.watch.session import listening_session
from testkit.servers.scripted_http import Call, Script, ScriptedHttp


@dataclass
class Heard:
    """Writes down what it learns."""

    told: list[tuple[str, str]] = field(default_factory=list)

    def opened(self, watch: str) -> None:
        self.told.append(("opened", watch))

    def closed(self, watch: str) -> None:
        self.told.append(("closed", watch))

    def heard(self, watch: str) -> None:
        self.told.append(("heard", watch))


async def events(call: Call) -> None:
    await call.begin()
    await call.chunk(b"{}")
    await call.chunk(b"")


async def refusal(call: Call) -> None:
    await call.answer(b"", status=404)


async def dropped(call: Call) -> None:
    call.close()


@pytest.mark.parametrize(
    ("script", "query", "told"),
    [
        (events, "?watch=true", ["opened", "heard", "closed"]),
        (refusal, "?watch=true", ["opened", "closed"]),
        (dropped, "?watch=true", ["opened", "closed"]),
        (events, "", []),
    ],
)
async def test_a_watch_is_told_of_from_its_attempt_to_its_end(script: Script, query: str, told: list[str]) -> None:
    listener = Heard()
    async with ScriptedHttp(script) as server:
        session = listening_session(kopf.ConnectionInfo(server=server.url), listener)
        async with session.aiohttp_session as client:
            try:
                async with client.get(f"{server.url}/pods{query}") as response:
                    async for _ in response.content.iter_chunked(100):
                        pass
            except aiohttp.ServerDisconnectedError:
                assert script is dropped
    assert listener.told == [(what, "/pods") for what in told]
