"""Pure but for the clock it is given: what all gateways have to do for each model, by what each of them said last."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_kit.registry.liveness import EXPIRY_S
from conch_operator.scaling.decision import ModelLoad


@dataclass(slots=True)
class _Heard:
    load: GatewayLoad
    said_at_s: float
    lives_at_s: float
    """When that showed last that it lives; after a time without Redis, when Redis was back."""


@dataclass(slots=True)
class DemandBook:
    """The last record of each gateway."""

    clock: Callable[[], float]
    away: bool = True
    """Whether Redis cannot be heard, or has lost what it held, so that there may be more than is known."""
    awake_until: Mapping[ModelId, float] = field(default_factory=dict)
    """Models that somebody asked to be awake: until when, in Unix seconds."""
    _heard: dict[str, _Heard] = field(default_factory=dict)

    def hear(self, load: GatewayLoad) -> bool:
        """Take a record, and return whether it says anything new."""
        known = self._heard.get(load.id)
        if known is not None and known.load.sequence >= load.sequence:
            return False
        now = self.clock()
        self._heard[load.id] = _Heard(load, now, now)
        return True

    def take_all(self, loads: Sequence[GatewayLoad]) -> None:
        """Take all that Redis holds; when that is nothing though somebody lives, it was emptied."""
        for load in loads:
            self.hear(load)
        self.away = not loads and bool(self._living())

    def lose(self) -> None:
        """Note that Redis cannot be heard: what was known goes on counting."""
        self.away = True

    def come_back(self) -> None:
        """Give everybody the full time again: they could not be heard for a while."""
        now = self.clock()
        for heard in self._heard.values():
            heard.lives_at_s = now

    def of(self, model: ModelId, gateways: Collection[str]) -> ModelLoad:
        """Return what there is to do for a model; `gateways`: those that live, whether they have said it or not."""
        living, now = self._living(), self.clock()
        said = [found for load in living.values() if (found := load.models.get(model)) is not None]
        ended = [
            found.idle_s + now - self._heard[name].said_at_s
            for name, load in living.items()
            if (found := load.models.get(model)) is not None and found.idle_s is not None
        ]
        return ModelLoad(
            sequences=sum(_sequences(demand) for demand in said),
            oldest_wait_s=max((demand.oldest_wait_s for demand in said), default=0.0),
            idle_s=min(ended, default=None),
            complete=not self.away and bool(gateways) and living.keys() >= set(gateways),
        )

    def said_since(self, at_s: float) -> bool:
        """Return whether every gateway that lives has said something since then."""
        living = self._living()
        return all(self._heard[name].said_at_s > at_s for name in living)

    def taken(self, model: ModelId) -> Mapping[EngineAddress, int]:
        """Return how many slots of each of a model's engines are taken."""
        taken: Counter[EngineAddress] = Counter()
        for load in self._living().values():
            if (demand := load.models.get(model)) is not None:
                taken.update(demand.taken)
        return taken

    def forget(self, after_s: float = 60.0) -> None:
        """Drop those that have been silent for long."""
        now = self.clock()
        self._heard = {name: heard for name, heard in self._heard.items() if now - heard.lives_at_s < after_s}

    def _living(self) -> dict[str, GatewayLoad]:
        """Return the records of those that live; while Redis is away nobody goes."""
        now = self.clock()
        return {
            name: heard.load for name, heard in self._heard.items() if self.away or now - heard.lives_at_s <= EXPIRY_S
        }


def _sequences(demand: ModelDemand) -> int:
    return demand.in_flight + demand.queued + demand.held
