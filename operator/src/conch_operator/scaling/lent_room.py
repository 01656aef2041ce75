"""Room that is lent: where no node has room for an engine that somebody waits for, another model rests early.

Of those that may rest it is the one that has been idle longest. It goes as it always does: its engines leave the route
first, and a request that comes meanwhile gets them back.
"""

from collections.abc import Mapping
from decimal import Decimal

from conch_contracts.names import ModelId
from conch_contracts.spec.container import ResourcesSpec
from conch_contracts.spec.engine import REQUESTED_BY_DEFAULT, EngineSpec
from conch_contracts.spec.quantities import quantity_value
from conch_operator.scaling.scaled_model import ScaledModel


class LentRoom:
    """Which model rests for which."""

    def __init__(self) -> None:
        """Make it without any."""
        self._lenders: dict[ModelId, ModelId] = {}
        self._served: set[ModelId] = set()
        """Models for which another has gone to rest: should that not have been enough, no more do."""

    def lends(self, model: ModelId) -> bool:
        """Return whether a model is to rest for another one."""
        return model in self._lenders.values()

    def comes_for(self, waiting: ScaledModel, models: Mapping[ModelId, ScaledModel]) -> bool:
        """Return whether another model is about to rest for one that has no room; one is chosen where none is."""
        model = waiting.deployed.id
        if model in self._served:
            return False
        lender = models.get(self._lenders.pop(model, ModelId("")))
        if lender is not None and lender.scaler.desired == 0:
            self._served.add(model)
            return False
        if lender is None or not _may_lend(lender, waiting):
            able = [other for other in models.values() if _may_lend(other, waiting)]
            free = (other for other in able if not self.lends(other.deployed.id))
            lender = max(free, key=lambda other: other.scaler.idle_s, default=None)
        if lender is not None:
            self._lenders[model] = lender.deployed.id
        return lender is not None

    def forget(self, model: ModelId) -> None:
        """Note that a model no longer waits for room."""
        self._lenders.pop(model, None)
        self._served.discard(model)


def _may_lend(lender: ScaledModel, waiting: ScaledModel) -> bool:
    """Return whether a model has nothing to do and may rest, and an engine of the other one fits into its room."""
    if lender is waiting or lender.seen.ready == 0 or not lender.may_rest or lender.scaler.idle_s < 0:
        return False
    lent, needed = (model.deployed.deployment.spec.engine for model in (lender, waiting))
    has = _asked(lent)
    is_enough = all(has.get(name, 0) >= amount for name, amount in _asked(needed).items())
    return is_enough and _nodes(lent) == _nodes(needed)


def _asked(engine: EngineSpec) -> dict[str, Decimal]:
    """Return what of each resource a node must have left for an engine."""
    given = engine.resources or ResourcesSpec()
    asked = {**REQUESTED_BY_DEFAULT, **(given.limits or {}), **(given.requests or {})}
    return {name: quantity_value(amount) for name, amount in asked.items()}


def _nodes(engine: EngineSpec) -> tuple[object, ...]:
    """Return what says on which nodes an engine may run."""
    return engine.node_selector, engine.tolerations, engine.affinity
