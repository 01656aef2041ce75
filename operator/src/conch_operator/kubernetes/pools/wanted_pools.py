"""From the EnginePools that the API server lists to what is wanted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conch_contracts.enginepool import parse_stored_pool
from conch_contracts.names import API_VERSION, POOL_KIND, PoolId
from conch_contracts.problems import InvalidObject
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.resources.pool_objects import PoolObject


@dataclass(frozen=True, slots=True)
class WantedPools:
    """All EnginePools of one listing."""

    pools: Mapping[PoolId, PoolObject] = field(default_factory=dict)
    objects: Mapping[PoolId, Object] = field(default_factory=dict)
    """As they were listed, those that cannot be read too."""
    unreadable: Mapping[PoolId, str] = field(default_factory=dict)
    """Which rule some break: another version's schema has let them in."""

    @property
    def specs(self) -> Mapping[PoolId, EnginePoolSpec]:
        """Return how much room each has."""
        return {pool_id: pool.spec for pool_id, pool in self.pools.items()}


def read_pools(items: Iterable[Object], before: Mapping[PoolId, PoolObject]) -> WantedPools:
    """Return what these objects want; one that cannot be read is as it was `before`, where that is known.

    Those that are being deleted want nothing any more.
    """
    pools: dict[PoolId, PoolObject] = {}
    objects: dict[PoolId, Object] = {}
    unreadable: dict[PoolId, str] = {}
    for item in items:
        meta = item["metadata"]
        if "deletionTimestamp" in meta:
            continue
        pool_id = PoolId(f"{meta['namespace']}/{meta['name']}")
        objects[pool_id] = item
        stored = {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": meta, "spec": item.get("spec")}
        try:
            spec = parse_stored_pool(stored).spec
        except InvalidObject as error:
            unreadable[pool_id] = str(error)
            if pool_id in before and before[pool_id].uid == meta["uid"]:
                pools[pool_id] = before[pool_id]
            continue
        pools[pool_id] = PoolObject(meta["namespace"], meta["name"], meta["uid"], meta["generation"], spec)
    return WantedPools(pools, objects, unreadable)
