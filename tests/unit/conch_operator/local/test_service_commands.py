"""What the services of `conch up` are started with, what is known of where they serve, and how they end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conch_operator.local.services import GATEWAY, MEDIA, REDIS, ServiceOptions, Services
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import Command

OPTIONS = ServiceOptions(
    host="localhost",
    port=8000,
    log_level="INFO",
    redis_url="redis://127.0.0.1:6400/0",
    redis_binary=Path("/bin/redis-server"),
    media_port=8001,
    internal_token="secret",
    environment={"PATH": "/bin"},
    gateway_settings={"CONCH_HOLD_S": "5"},
)


class Process:
    """Ends when it is asked to."""

    def __init__(self, command: Callable[[], Awaitable[Command]]) -> None:
        self.command = command
        self._ended = asyncio.Event()

    def stop(self) -> None:
        self._ended.set()

    async def stopped(self) -> None:
        await self._ended.wait()


class Noting:
    """Starts nothing."""

    def supervise(self, name: str, command: Callable[[], Awaitable[Command]], *given: object) -> Process:
        return Process(command)


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    (tmp_path / "run").mkdir()
    return StateFolder(tmp_path)


@pytest.fixture
def services(state: StateFolder) -> Services:
    made = Services(OPTIONS, state)
    made.start(Noting(), lambda: None)  # type: ignore[arg-type]
    return made


async def test_pictures_are_fetched_by_none_before_a_model_allows_it(services: Services) -> None:
    assert REDIS in services.processes
    assert MEDIA not in services.processes


@pytest.mark.parametrize("said", [None, "", "{", "{}"])
async def test_a_service_that_has_not_said_where_it_serves_serves_nowhere(
    services: Services, state: StateFolder, said: str | None
) -> None:
    if said is not None:
        (state.run / "gateway.json").write_text(said)
    assert services.url(GATEWAY) is None


async def test_what_the_process_before_it_has_said_is_forgotten(services: Services, state: StateFolder) -> None:
    (state.run / "gateway.json").write_text('{"url": "http://localhost:8000"}')
    assert services.url(GATEWAY) == "http://localhost:8000"
    await services.processes[GATEWAY].command()  # type: ignore[attr-defined]
    assert services.url(GATEWAY) is None


async def test_only_the_gateway_gets_what_is_meant_for_it(services: Services) -> None:
    services.start_media(Noting(), lambda: None)  # type: ignore[arg-type]
    found = {
        name: (await process.command()).environment  # type: ignore[attr-defined]
        for name, process in services.processes.items()
    }
    assert [name for name, given in found.items() if "CONCH_HOLD_S" in given] == [GATEWAY]
    assert {name for name, given in found.items() if "CONCH_REDIS_URL" not in given} == {REDIS, MEDIA}
    assert found[REDIS] == OPTIONS.environment


async def test_those_that_are_named_end_and_no_others(services: Services) -> None:
    await asyncio.wait_for(services.stop((GATEWAY, MEDIA)), 30)
    ended = {name for name, process in services.processes.items() if process._ended.is_set()}  # type: ignore[attr-defined]
    assert ended == {GATEWAY}
