"""Pure but for the clock it is given: what all gateways have to do for each model, by what each of them said last."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_kit.registry.load_book import LoadBook
from conch_operator.scaling.decision import ModelLoad


class DemandBook:
    """The last record of each gateway."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.away = True
        """Whether Redis cannot be heard, so that there may be more than is known."""
        self.incomplete_until_s = -math.inf
        """Until when, by the clock, there may be more all the same: see `DemandReader`."""
        self.awake_until: Mapping[ModelId, float] = {}
        """Models that somebody asked to be awake: until when, in Unix seconds."""
        self.records = LoadBook(clock)
        self._lived: frozenset[str] = frozenset()
        """Who lived when Redis was heard last; while it is away none of them goes."""

    def hear(self, load: GatewayLoad) -> bool:
        """Take a record, and return whether it says anything new."""
        return self.records.hear(load)

    def take_all(self, loads: Sequence[GatewayLoad]) -> list[GatewayLoad]:
        """Take all that Redis holds, and return what is new."""
        return [load for load in loads if self.hear(load)]

    def lose(self) -> None:
        """Note that Redis cannot be heard: what was known goes on counting."""
        if not self.away:
            self._lived = frozenset(load.id for load in self.records.living())
            self.away = True

    def come_back(self) -> None:
        """Note that Redis can be heard: those who lived get the full time again, since nobody could hear them."""
        if self.away:
            self.records.forgive(load for load in self.records.known() if load.id in self._lived)
            self.away = False

    def of(self, model: ModelId, gateways: Collection[str]) -> ModelLoad:
        """Return what there is to do for a model; `gateways`: those that live, whether they have said it or not."""
        living, now = self._living(), self.clock()
        said = [(load, found) for load in living if (found := load.models.get(model)) is not None]
        ended = [found.idle_s + now - self.records.said_at_s(load) for load, found in said if found.idle_s is not None]
        return ModelLoad(
            sequences=sum(_sequences(demand) for _, demand in said),
            oldest_wait_s=max((demand.oldest_wait_s for _, demand in said), default=0.0),
            idle_s=min(ended, default=None),
            complete=self.is_complete(gateways),
        )

    def is_complete(self, gateways: Collection[str]) -> bool:
        """Return whether each of these gateways that live has said what it has to do."""
        if self.away or self.clock() < self.incomplete_until_s:
            return False
        return bool(gateways) and {load.id for load in self._living()} >= set(gateways)

    def is_asked(self, model: ModelId) -> bool:
        """Return whether somebody has something to do for a model."""
        said = (load.models.get(model) for load in self._living())
        return any(demand is not None and _sequences(demand) > 0 for demand in said)

    def said_since(self, at_s: float) -> bool:
        """Return whether every gateway that lives has said something since then."""
        return all(self.records.said_at_s(load) > at_s for load in self._living())

    def applied(self) -> int:
        """Return the revision of the registry that every gateway that lives has applied when it last said something."""
        return min((load.revision for load in self._living()), default=0)

    def taken(self, model: ModelId) -> Mapping[EngineAddress, int]:
        """Return how many slots of each of a model's engines are taken."""
        taken: Counter[EngineAddress] = Counter()
        for load in self._living():
            if (demand := load.models.get(model)) is not None:
                taken.update(demand.taken)
        return taken

    def holds(self) -> bool:
        """Return whether a request is held somewhere until an engine is there."""
        return any(demand.held for load in self._living() for demand in load.models.values())

    def _living(self) -> tuple[GatewayLoad, ...]:
        """Return the records of those that live; while Redis is away nobody goes."""
        living = self.records.living()
        if not self.away:
            return living
        alive = self._lived.union(load.id for load in living)
        return tuple(load for load in self.records.known() if load.id in alive)


def _sequences(demand: ModelDemand) -> int:
    return demand.in_flight + demand.queued + demand.held
