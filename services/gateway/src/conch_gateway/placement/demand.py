"""What this gateway has to do, as it tells others: gateways share slots by it, the operator scales by it. Pure."""

from collections.abc import Mapping

from conch_contracts.names import ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_gateway.placement.model_queue import ModelQueue

FORGOTTEN_S = 3600.0
"""A model that has had nothing to do for so long is not told of."""


def load_of(
    gateway_id: str, sequence: int, revision: int, queues: Mapping[ModelId, ModelQueue], now: float
) -> GatewayLoad:
    """Return what there is to do in these queues."""
    demands = ((model, queue.demand(now)) for model, queue in queues.items())
    models = {model: demand for model, demand in demands if _worth_telling(demand)}
    return GatewayLoad(id=gateway_id, sequence=sequence, revision=revision, models=models)


def _worth_telling(demand: ModelDemand) -> bool:
    if demand.in_flight or demand.queued or demand.held:
        return True
    return demand.idle_s is not None and demand.idle_s < FORGOTTEN_S
