"""Room that is lent: where no node has room for an engine that is wanted now, another model rests early.

Each round chooses anew, by what is known of all models then. `decision` says when a model that lends may rest, and
`freed_room` that its room comes.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from conch_contracts.names import ModelId
from conch_contracts.spec.container import ResourcesSpec
from conch_contracts.spec.engine import REQUESTED_BY_DEFAULT
from conch_contracts.spec.quantities import quantity_value
from conch_operator.scaling.freed_room import FreedRoom
from conch_operator.scaling.node_wait import NodeWait
from conch_operator.scaling.scaled_model import ScaledModel

log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""How long requests wait while the models that could lend their room are busy, or were a moment ago, since the last of
them came."""
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

        `is_asked`: whether somebody waits for a model now. Nobody rests for one that nobody waits for, unless none of
        its engines has answered yet: whoever has applied its spec waits to see one do so.
        """
        before, self._lenders = self._lenders, {}
        for model in before.values():
            model.lends = False
        waiting = [(model, model.node_wait) for model in models.values() if model.node_wait is not None]
        able = [(model, _Room.of(model)) for model in models.values() if _may_rest(model)] if waiting else []
        for model, wait in waiting:
            lender = before.get(model.deployed.id)
            if lender is not None and lender.scaler.desired == 0:
                wait.lent_at_s.append(now_s)
                wait.room_of |= freed.left_by(lender.deployed.id)
            needed = _Room.of(model)
            fitting = [other for other, room in able if other is not model and room.is_enough_for(needed)]
            wait.note_lenders({other.deployed.id for other in fitting}, now_s)
            willing = [other for other in fitting if other.scaler.may_lend and not other.lends]
            soon = bool(fitting) and now_s - wait.hoped_since_s < PATIENCE_S
            wait.may_borrow = (bool(willing) or soon) and not model.seen.ready and _may_borrow_again(wait, now_s)
            is_wanted = not model.proven or is_asked(model.deployed.id)
            if not (willing and wait.may_borrow and is_wanted) or _comes(freed.models_of(wait.room_of), needed, models):
                continue
            idle = max(willing, key=lambda other: other.scaler.idle_s)
            idle.lends = True
            self._lenders[model.deployed.id] = idle
            if idle is not lender:
                log.info("A model rests for another.", extra={"model": idle.deployed.id, "for": model.deployed.id})


def _may_borrow_again(wait: NodeWait, now_s: float) -> bool:
    """Return whether not too many have rested for it already."""
    return sum(now_s - at_s < WHILE_S for at_s in wait.lent_at_s) < MOST


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
