"""Pure: what keeps a model out of an EnginePool on a cluster, though its spec is right by itself.

All models of a pool are in one pod, so what belongs to a pod is the pool's to say, and a model's folder must be in that
pod: in the image of the cpu runtime (`path`), or on a claim that the pool mounts.
"""

from conch_contracts.conditions import Reason
from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import PoolId
from conch_contracts.spec.engine import container_fields
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_contracts.spec.source import CLIMBS
from conch_operator.state import Fault

_ALONE = "or remove spec.placement, and the model has engines of its own"


def spec_fault(deployment: ModelDeployment) -> Fault | None:
    """Return what no pool on a cluster can give this model; None where nothing is in the way."""
    spec = deployment.spec
    if spec.source.climbs:
        return Fault(Reason.NOT_HERE, f"spec.source.{CLIMBS}.")
    if spec.source.path is None and spec.source.pvc is None:
        message = (
            f"An EnginePool on a cluster takes models whose source is path or pvc, not {spec.source.named}: put the "
            f"files on a claim that the pool mounts, {_ALONE}."
        )
        return Fault(Reason.NOT_HERE, message)
    if of_a_pod := container_fields(spec.engine):
        named = ", ".join(f"spec.engine.{field}" for field in of_a_pod)
        message = (
            f"{named}: this is of a pod of the model's own, and models in an EnginePool share one. Remove it, {_ALONE}."
        )
        return Fault(Reason.NOT_HERE, message)
    return None


def pool_fault(deployment: ModelDeployment, pool_id: PoolId, pool: EnginePoolSpec | None) -> Fault | None:
    """Return what its own pool cannot give this model; `pool` is None where there is none of that name."""
    name = pool_id.partition("/")[2]
    if pool is None:
        message = f"There is no EnginePool {name} in the model's namespace. Create it, or correct spec.placement.pool."
        return Fault(Reason.POOL_NOT_FOUND, message)
    claim = deployment.spec.source.pvc
    if claim is not None and claim.claim_name not in pool.claims:
        message = (
            f"The EnginePool {name} does not mount the PersistentVolumeClaim {claim.claim_name}: add it to spec.claims "
            "of the pool."
        )
        return Fault(Reason.NOT_HERE, message)
    return None
