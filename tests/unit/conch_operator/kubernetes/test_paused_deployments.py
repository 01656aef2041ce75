"""What somebody is told who pauses a Deployment of a pool: how to have no pods of that pool, and by whom."""

from typing import Any

from pydantic import SecretStr

from conch_contracts.names import PoolId
from conch_contracts.records import ModelKind
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.agent.tokens import AgentTokens
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.pools.pool_objects_kept import KeptPoolObjects
from conch_operator.kubernetes.worker_pools import WorkerPools
from conch_operator.resources.pool_objects import PoolObject
from conch_operator.settings import EngineSettings, ReleaseFile

SETTINGS = EngineSettings.model_validate({"agentImage": "a", "images": {"cpu": "c"}})


class Paused(KubernetesApi):
    """An API server where every Deployment is paused, which keeps Events."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Object] = []

    async def list_all(self, kind: Kind, namespace: str | None, **_: Any) -> list[Object]:
        return []

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return None

    async def apply(self, kind: Kind, made: Object) -> Object:
        meta = made["metadata"] | {"uid": "u", "resourceVersion": "1", "generation": 1}
        return made | {"metadata": meta, "spec": made["spec"] | {"paused": True}}

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str = "") -> Object:
        return {"metadata": {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "2", "generation": 2}}

    async def create(self, kind: Kind, made: Object) -> Object:
        self.events.append(made)
        return made

    def told(self) -> tuple[str, str]:
        """Return what the only Event says, and who."""
        (event,) = self.events
        return event["note"], event["reportingInstance"]


async def test_of_an_engine_pool() -> None:
    server = Paused()
    kept = KeptPoolObjects(server, AgentTokens(SecretStr("key")), SETTINGS, [None], instance="operator-1")
    pool = PoolObject("ns", "small", "uid", 1, EnginePoolSpec.model_validate({"memory": "1Gi"}))
    await kept.make({PoolId("ns/small"): pool}, lambda _: [])
    note, instance = server.told()
    assert note.endswith("To have no pod, delete its EnginePool.")
    assert instance == "operator-1"


async def test_of_workers() -> None:
    server = Paused()
    workers = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "llm-worker"}, "spec": {}}
    pool = {"kinds": ["LLM"], "idle_seconds": 60, "objects": {"deployment": workers}}
    release = {"release": {"namespace": "conch", "name": "conch"}, "engines": SETTINGS, "worker_pools": {"llm": pool}}
    await WorkerPools(server, ReleaseFile.model_validate(release), instance="operator-1").ensure([ModelKind.LLM], {})
    note, instance = server.told()
    assert note.endswith("Workers end by themselves when no model needs them any more.")
    assert instance == "operator-1"
