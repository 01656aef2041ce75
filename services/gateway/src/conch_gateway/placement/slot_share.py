"""How many slots of an engine this gateway may take, beside what other gateways have taken of them. Pure.

Nobody asks anybody: each gateway hears from the others what they have, at most a beat of 50 ms late, so together they
may exceed an engine's slots by what arrives within a beat. Where others wait for the model too, each has a share of its
slots as large as its part of the demand; of a slot that only a fraction belongs to, the others get the first chance.
While nobody can be heard each has an equal part, and one slot at least.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand

LEFT_S = 0.1
"""How long a slot is left to others: two beats, so that they hear of it and their taking it is heard."""


@dataclass(frozen=True, slots=True)
class OthersOfModel:
    """What the other gateways do for one model, all together."""

    gateways: int
    """How many others there are, with or without requests for this model."""
    taken: Mapping[EngineAddress, int] = field(default_factory=dict)
    demand: int = 0
    """Sequences that they work on, or that wait."""
    waiting: int = 0
    """Those of them that wait for a slot, or for an engine to start."""
    away: bool = False
    """Whether the others cannot be heard."""

    def share(self, slots: int, mine: int) -> float:
        """Return how many of so many slots are due to a gateway with this demand of its own."""
        if self.away:
            return slots // (self.gateways + 1)
        if not self.waiting:
            return slots
        return slots * mine / (mine + self.demand) if mine else 0.0

    def room(self, address: EngineAddress, slots: int, own: int, wanted: int, mine: int) -> int:
        """Return how many slots a request that wants so many gets now; 0: it has to wait.

        `own` are those that this gateway has of the engine, `mine` is its demand for the model, this request included.
        """
        share = self.share(slots, mine)
        granted = min(wanted, max(1, int(share)))
        if self.away:
            return granted if own + granted <= share or not own else 0
        free = slots - own - self.taken.get(address, 0)
        return granted if granted <= free and own < share else 0

    def first_chance(self, slots: int, own: int, mine: int) -> bool:
        """Tell whether a slot that this gateway gives back is left to the others for a moment; `own` remain."""
        return not self.away and self.waiting > 0 and own + 1 > self.share(slots, mine)


def others_by_model(loads: Sequence[GatewayLoad], *, away: bool) -> Mapping[ModelId, OthersOfModel]:
    """Return what others do for each model that they have anything to do for."""
    demands: dict[ModelId, list[ModelDemand]] = {}
    for load in loads:
        for model, demand in load.models.items():
            if demand.in_flight or demand.queued or demand.held:
                demands.setdefault(model, []).append(demand)
    return {model: _together(found, len(loads), away=away) for model, found in demands.items()}


def _together(demands: Sequence[ModelDemand], gateways: int, *, away: bool) -> OthersOfModel:
    taken: Counter[EngineAddress] = Counter()
    for demand in demands:
        taken.update(demand.taken)
    waiting = sum(demand.queued + demand.held for demand in demands)
    return OthersOfModel(gateways, taken, waiting + sum(demand.in_flight for demand in demands), waiting, away)
