"""How engines of `conch up` end: when they are told to, by force when they do not, and in pools with their servers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch_contracts.names import PoolId
from conch_operator.local import engines as module
from conch_operator.local.engines import LocalEngines
from conch_operator.local.supervisor import LaunchError

POOL = PoolId("local/shared")


class Process:
    """Ends when it is killed, and when it is asked to if it obeys."""

    def __init__(self, name: str, command: Callable[[], Any]) -> None:
        self.name, self.command, self.obeys, self.gone = name, command, True, False
        self.told: list[str] = []
        self._ended = asyncio.Event()

    def stop(self) -> None:
        self.told.append("stop")
        if self.obeys:
            self._ended.set()

    def kill(self) -> None:
        self.told.append("kill")
        self._ended.set()

    def restart(self) -> None:
        self.told.append("restart")

    async def stopped(self) -> None:
        await self._ended.wait()


class Noting:
    """Starts nothing, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}

    def remove_shared_memory_at_exit(self, prefix: str) -> None:
        """Do nothing: there is none."""

    def supervise(self, name: str, command: Callable[[], Any], changed: object, policy: object) -> Process:
        assert name not in self.processes, "It is started twice."
        self.processes[name] = Process(name, command)
        return self.processes[name]


@pytest.fixture
def supervisor() -> Noting:
    return Noting()


@pytest.fixture
def engines(supervisor: Noting, tmp_path: Path) -> LocalEngines:
    state: Any = SimpleNamespace(repository=lambda name: tmp_path / name, cache=tmp_path / "cache")
    nothing: Any = None
    return LocalEngines(supervisor, state, nothing, nothing, lambda: None)  # type: ignore[arg-type]


def component(name: str) -> Any:
    return SimpleNamespace(name=name, recipe=SimpleNamespace(pool=None), tokenizer=name * 64)


def steps(*pools: PoolId) -> Any:
    return SimpleNamespace(pools=dict.fromkeys(pools), start=(), restart=(), stop=(), specs={})


async def test_the_engine_that_is_named_ends_and_begins_anew(engines: LocalEngines, supervisor: Noting) -> None:
    for name in ("a", "b", "a"):
        await engines.start(component(name))
    await engines.restart("a")  # type: ignore[arg-type]
    await engines.stop("a")  # type: ignore[arg-type]
    await engines.stop("unknown")  # type: ignore[arg-type]
    assert {name: process.told for name, process in supervisor.processes.items()} == {"a": ["restart", "stop"], "b": []}
    assert engines.tokenizer_of("a") == "a" * 64  # type: ignore[arg-type]
    assert engines.tokenizer_of("unknown") is None  # type: ignore[arg-type]


async def test_an_engine_that_has_ended_is_there_no_more(engines: LocalEngines, supervisor: Noting) -> None:
    await engines.start(component("a"))
    supervisor.processes["a"].gone = True
    assert await engines.engines() == ()
    assert engines.tokenizer_of("a") is None  # type: ignore[arg-type]


async def test_at_the_end_all_are_asked_and_those_that_stay_are_killed(
    engines: LocalEngines, supervisor: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_GRACE_S", 0.01)
    for name in ("a", "b"):
        await engines.start(component(name))
    supervisor.processes["b"].obeys = False
    await asyncio.wait_for(engines.stop_all(), 30)
    assert {name: process.told[0] for name, process in supervisor.processes.items()} == {"a": "stop", "b": "stop"}
    assert supervisor.processes["b"].told[-1] == "kill"


async def test_a_pool_that_nobody_wants_ends_and_is_killed_with_the_others(
    engines: LocalEngines, supervisor: Noting
) -> None:
    await engines.act(steps(POOL))
    await engines.act(steps(POOL))
    await engines.act(steps())
    (server,) = supervisor.processes.values()
    assert server.told == ["stop"]
    engines.kill()
    assert server.told == ["stop", "kill"]


async def test_the_servers_of_pools_end_with_all(engines: LocalEngines, supervisor: Noting) -> None:
    await engines.act(steps(POOL))
    await asyncio.wait_for(engines.stop_all(), 30)
    (server,) = supervisor.processes.values()
    assert server.told[0] == "stop"


async def test_a_repository_that_cannot_be_written_keeps_an_engine_from_its_start(
    engines: LocalEngines, supervisor: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "repository_files", lambda recipe, cache: {"config.pbtxt": "name"})
    await engines.start(component("a"))
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(LaunchError, match="its model repository cannot be written"):
        await supervisor.processes["a"].command()


class Models:
    """Those in the server of a pool, and what they are told."""

    def __init__(self, server: Process) -> None:
        self.told: list[str] = []
        self.names, self.seen = ("in",), ()
        self._server = server

    def forget_gone(self) -> None:
        self.told.append("forget")

    def restart(self, name: str) -> None:
        self.told.append(f"restart {name}")

    def stop(self, name: str) -> None:
        self.told.append(f"stop {name}")

    async def end(self) -> None:
        assert self._server.told == ["stop"], "A server that goes on serves models that nobody keeps."
        self.told.append("end")


async def test_what_is_in_a_pool_hears_all_that_engines_hear(engines: LocalEngines, supervisor: Noting) -> None:
    await engines.act(steps(POOL))
    (server,) = supervisor.processes.values()
    models: Any = Models(server)
    engines._pools[POOL] = module._LocalPool(server, models)  # type: ignore[arg-type]
    await engines.engines()
    await engines.restart("in")  # type: ignore[arg-type]
    await engines.stop("in")  # type: ignore[arg-type]
    await engines.act(steps())
    assert server.told == [], "It serves a model yet."
    await asyncio.wait_for(engines.stop_all(), 30)
    assert models.told == ["forget", "restart in", "stop in", "end"]
