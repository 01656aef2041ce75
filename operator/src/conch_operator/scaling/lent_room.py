"""Room that is lent: where no node has room for an engine that somebody waits for, another model rests early.

Each round chooses anew, by what is known of all models then. `decision` says when a model that lends may rest, and
`freed_room` that its room comes.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from conch_contracts.names import ModelId
from conch_contracts.spec.container import ResourcesSpec
from conch_contracts.spec.engine import REQUESTED_BY_DEFAULT
from conch_contracts.spec.quantities import quantity_value
from conch_operator.scaling.freed_room import FreedRoom
from conch_operator.scaling.scaled_model import ScaledModel

log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""How long requests wait while the models that could lend their room are busy, or were a moment ago."""
MOST = 2
"""So many models rest for one that finds no room: what the first leaves may go to somebody else."""
WHILE_S = 300.0
"""After that time as many may rest for it again."""


class LentRoom:
    """Which model rests for which."""

    def __init__(self) -> None:
        """Make it without any."""
        self._lenders: dict[ModelId, ScaledModel] = {}

    def choose(
        self,
        models: Mapping[ModelId, ScaledModel],
        freed: FreedRoom,
        is_asked: Callable[[ModelId], bool],
        now_s: float,
    ) -> None:
        """Tell models whether they lend their room, and those without room whether they may hope for that.

        `is_asked`: whether somebody waits for a model now; nobody rests for one that nobody waits for.
        """
        before, self._lenders = self._lenders, {}
        for model in before.values():
            model.lends = False
        waiting = [model for model in models.values() if model.no_node_since_s is not None]
        able = [(model, _Room.of(model)) for model in models.values() if _may_rest(model)] if waiting else []
        for model in waiting:
            lender = before.get(model.deployed.id)
            if lender is not None and lender.scaler.desired == 0:
                model.lent_at_s.append(now_s)
                model.room_of |= freed.left_by(lender.deployed.id)
            needed = _Room.of(model)
            fitting = [
                other for other, room in able if other is not model and not other.lends and room.is_enough_for(needed)
            ]
            idle = _choose_for(model, fitting, now_s)
            if (
                idle is None
                or not is_asked(model.deployed.id)
                or _comes(freed.models_of(model.room_of), needed, models)
            ):
                continue
            idle.lends = True
            self._lenders[model.deployed.id] = idle
            if idle is not lender:
                log.info("A model rests for another.", extra={"model": idle.deployed.id, "for": model.deployed.id})


def _choose_for(model: ScaledModel, fitting: Sequence[ScaledModel], now_s: float) -> ScaledModel | None:
    """Return who is to lend a model its room, and say to the model whether it may hope for any."""
    model.may_borrow = False
    if model.seen.ready or sum(now_s - at_s < WHILE_S for at_s in model.lent_at_s) >= MOST:
        return None
    idle = max(fitting, key=lambda other: other.scaler.idle_s, default=None)
    if idle is not None and not idle.scaler.may_lend:
        since_s = now_s if model.no_node_since_s is None else model.no_node_since_s
        model.may_borrow = now_s - since_s < PATIENCE_S
        return None
    model.may_borrow = idle is not None
    return idle


def _may_rest(model: ScaledModel) -> bool:
    """Return whether a model has engines that may all go once nobody needs them."""
    free = model.bounds is not None and model.least == 0
    return free and model.scaler.desired > 0 and model.seen.ready > 0 and not model.seen.failing


def _comes(leaving: Iterable[ModelId], needed: "_Room", models: Mapping[ModelId, ScaledModel]) -> bool:
    """Return whether room that is enough comes by itself; of models that have gone nobody knows how much it is."""
    return any(model not in models or _Room.of(models[model]).is_enough_for(needed) for model in leaving)


@dataclass(frozen=True, slots=True)
class _Room:
    """What an engine takes of a node, and what says on which nodes it may run."""

    requested: Mapping[str, Decimal]
    nodes: tuple[object, ...]

    @classmethod
    def of(cls, model: ScaledModel) -> Self:
        engine = model.deployed.deployment.spec.engine
        given = engine.resources or ResourcesSpec()
        requested = {**REQUESTED_BY_DEFAULT, **(given.limits or {}), **(given.requests or {})}
        amounts = {name: quantity_value(amount) for name, amount in requested.items()}
        return cls(amounts, (engine.node_selector, engine.tolerations, engine.affinity))

    def is_enough_for(self, needed: "_Room") -> bool:
        """Return whether an engine fits where one that takes this was."""
        has = self.requested
        return self.nodes == needed.nodes and all(
            has.get(name, 0) >= amount for name, amount in needed.requested.items()
        )
