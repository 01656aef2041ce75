"""The objects of one pool of workers, from what the chart says about it."""

import copy
from dataclasses import dataclass
from typing import Any

from conch_contracts.names import GROUP, MANAGED_BY_LABEL, OPERATOR
from conch_operator.resources.metadata import with_hash
from conch_operator.settings import WorkerPoolSettings

Object = dict[str, Any]

WORKER_POOL_LABEL = f"{GROUP}/worker-pool"


@dataclass(frozen=True, slots=True)
class WorkerPoolPlace:
    """Where a pool runs, whom it belongs to, and how many workers it has now."""

    namespace: str
    owner: Object | None
    replicas: int


def make_worker_pool(name: str, pool: WorkerPoolSettings, place: WorkerPoolPlace) -> list[Object]:
    """Return the objects of a pool, complete."""
    return [_complete(name, copy.deepcopy(given), place) for given in pool.objects.values()]


def _complete(name: str, made: Object, place: WorkerPoolPlace) -> Object:
    meta = made["metadata"]
    meta["namespace"] = place.namespace
    meta["labels"] = {**meta.get("labels", {}), MANAGED_BY_LABEL: OPERATOR, WORKER_POOL_LABEL: name}
    if place.owner is not None:
        meta["ownerReferences"] = [place.owner]
    if made["kind"] == "Deployment":
        made["spec"]["replicas"] = place.replicas
    return with_hash(made)
