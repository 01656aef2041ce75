"""Engines of `conch up`: what their processes are given."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conch_contracts.names import PoolId
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.local.engines import GRACE_S, LONGEST_PAUSE_S, LocalEngines
from conch_operator.local.supervisor import RestartPolicy
from conch_operator.reconcile.plan import Plan


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
