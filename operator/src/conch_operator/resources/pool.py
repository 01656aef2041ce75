"""The objects of one pool of workers, from what the chart says about it."""

import copy
from typing import Any

from conch_contracts.names import GROUP, MANAGED_BY_LABEL, OPERATOR
from conch_operator.resources.metadata import with_hash
from conch_operator.settings import PoolSettings

Object = dict[str, Any]

POOL_LABEL = f"{GROUP}/worker-pool"


def make_pool(name: str, pool: PoolSettings, namespace: str, owner: Object | None) -> list[Object]:
    """Return the objects of a pool, complete."""
    return [_complete(name, pool, copy.deepcopy(given), namespace, owner) for given in pool.objects.values()]


def _complete(name: str, pool: PoolSettings, made: Object, namespace: str, owner: Object | None) -> Object:
    meta = made["metadata"]
    meta["namespace"] = namespace
    meta["labels"] = {**meta.get("labels", {}), MANAGED_BY_LABEL: OPERATOR, POOL_LABEL: name}
    if owner is not None:
        meta["ownerReferences"] = [owner]
    if made["kind"] == "Deployment":
        made["spec"]["replicas"] = pool.min_replicas
    return with_hash(made)
