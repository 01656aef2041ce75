"""Engines of `conch up`: what their processes are given."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conch_contracts.names import PoolId
from conch_operator.local.engines import GRACE_S, LONGEST_PAUSE_S, LocalEngines
from conch_operator.local.supervisor import RestartPolicy


class Noting:
    """Starts nothing, and keeps what it was asked for."""

    def remove_shared_memory_at_exit(self, prefix: str) -> None:
        self.prefix = prefix

    def supervise(self, name: str, command: object, changed: object, policy: RestartPolicy) -> SimpleNamespace:
        self.name, self.policy = name, policy
        return SimpleNamespace()


async def test_an_engine_is_tried_again_and_killed_in_time_and_leaves_no_shared_memory() -> None:
    supervisor: Any = Noting()
    component: Any = SimpleNamespace(name="one", recipe=SimpleNamespace(pool=None))
    state: Any = SimpleNamespace(repository=Path)
    nothing: Any = None
    await LocalEngines(supervisor, state, nothing, nothing, lambda: None).start(component)
    assert supervisor.policy == RestartPolicy(longest_pause_s=LONGEST_PAUSE_S, grace_s=GRACE_S)
    assert (supervisor.name, bool(supervisor.prefix)) == ("one", True)


async def test_an_engine_of_a_pool_is_started_once_in_its_pools_server_and_has_none_of_its_own() -> None:
    class Pool:
        def __init__(self) -> None:
            self.engines: dict[str, Any] = {}

        def start(self, component: Any) -> None:
            assert component.name not in self.engines
            self.engines[component.name] = component

    nothing: Any = None
    component: Any = SimpleNamespace(name="one", recipe=SimpleNamespace(pool="warm"))
    engines = LocalEngines(nothing, nothing, nothing, nothing, lambda: None)
    pool: Any = Pool()
    engines._pools[PoolId("warm")] = pool
    for _ in range(2):
        await engines.start(component)
    assert list(pool.engines) == ["one"]
