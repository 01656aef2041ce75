"""Engines of `conch up`: what their processes are given."""

import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conch_contracts.names import PoolId
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.local.engines import GRACE_S, LONGEST_PAUSE_S, EngineServer, LocalEngines
from conch_operator.local.supervisor import Command, RestartPolicy
from conch_operator.local.tritonserver import TritonInstallation
from conch_operator.reconcile.plan import Plan


class Noting:
    """Starts nothing, and keeps what it was asked for."""

    def remove_shared_memory_at_exit(self, prefix: str) -> None:
        self.prefix = prefix

    def supervise(
        self, name: str, command: Callable[[], Coroutine[None, None, Command]], changed: object, policy: RestartPolicy
    ) -> SimpleNamespace:
        self.name, self.command, self.policy = name, command, policy
        return SimpleNamespace()


async def test_an_engine_is_tried_again_and_killed_in_time_and_leaves_no_shared_memory() -> None:
    supervisor: Any = Noting()
    component: Any = SimpleNamespace(name="one", recipe=SimpleNamespace(pool=None))
    state: Any = SimpleNamespace(repository=Path)
    nothing: Any = None
    await LocalEngines(supervisor, state, nothing, nothing, lambda: None).start(component)
    assert supervisor.policy == RestartPolicy(longest_pause_s=LONGEST_PAUSE_S, grace_s=GRACE_S)
    assert (supervisor.name, bool(supervisor.prefix)) == ("one", True)


async def test_pools_of_two_namespaces_have_servers_and_folders_of_their_own(tmp_path: Path) -> None:
    supervisor: Any = Noting()
    names: list[str] = []
    supervisor.supervise = lambda name, *_: names.append(name) or SimpleNamespace()
    state: Any = SimpleNamespace(repository=tmp_path.joinpath)
    nothing: Any = None
    spec = EnginePoolSpec.model_validate({"memory": "1Gi"})
    pools = {PoolId("a-b/c"): spec, PoolId("a/b-c"): spec}
    await LocalEngines(supervisor, state, nothing, nothing, lambda: None).act(Plan(pools=pools))
    assert sorted(names) == ["pool-a-b.c", "pool-a.b-c"]


async def test_a_server_keeps_its_ports_over_restarts_until_somebody_else_has_one(tmp_path: Path) -> None:
    supervisor: Any = Noting()
    state: Any = SimpleNamespace(repository=tmp_path.joinpath, log=tmp_path.joinpath)
    nothing: Any = None
    server = EngineServer(TritonInstallation(tmp_path, tmp_path), {})
    pool = {PoolId("a/b"): EnginePoolSpec.model_validate({"memory": "1Gi"})}
    await LocalEngines(supervisor, state, server, nothing, lambda: None).act(Plan(pools=pool))
    first = _ports(await supervisor.command())
    assert _ports(await supervisor.command()) == first
    with socket.create_server(("127.0.0.1", first["metrics"])):
        other = _ports(await supervisor.command())
    assert first.keys() == other.keys() == {"http", "grpc", "metrics"}
    assert not set(first.values()) & set(other.values())
    assert _ports(await supervisor.command()) == other


def _ports(command: Command) -> dict[str, int]:
    options = (argument.removeprefix("--").partition("=") for argument in command.arguments)
    return {name.removesuffix("-port"): int(value) for name, _, value in options if name.endswith("-port")}
