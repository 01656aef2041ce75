"""Room that engines leave behind: who finds no node while one of them ends only has to wait until it is gone."""

from collections.abc import Callable, Iterable

from conch_contracts.conditions import Reason
from conch_contracts.names import ModelId
from conch_operator.state import EngineName, ObservedEngine

SCHEDULED_AGAIN_S = 4.0
"""How long after an engine has gone its room is still waited for.

The scheduler tries a pod again 1 s after its first attempt, then after 2 and 4 s.
"""


class FreedRoom:
    """The engines that end, or have ended a moment ago."""

    def __init__(self) -> None:
        """Make it without any."""
        self._seen: dict[EngineName, tuple[ModelId, float]] = {}
        """Of each, its model and when it was last seen."""

    def look(self, engines: Iterable[ObservedEngine], rests: Callable[[ModelId], bool], now_s: float) -> None:
        """See which engines have a node and end, or are to end because their model `rests`."""
        self._seen = {name: seen for name, seen in self._seen.items() if now_s - seen[1] < SCHEDULED_AGAIN_S}
        for engine in engines:
            fault = engine.engine.fault
            had_node = fault is None or fault.reason is not Reason.UNSCHEDULABLE
            if had_node and (not engine.stays or rests(engine.engine.model)):
                self._seen[engine.name] = (engine.engine.model, now_s)

    @property
    def left(self) -> frozenset[EngineName]:
        """The engines whose room comes, or has come a moment ago."""
        return frozenset(self._seen)

    def left_by(self, model: ModelId) -> frozenset[EngineName]:
        """Return those of one model."""
        return frozenset(name for name, (its, _) in self._seen.items() if its == model)

    def models_of(self, engines: Iterable[EngineName]) -> frozenset[ModelId]:
        """Return the models of those of these engines whose room still comes."""
        return frozenset(self._seen[name][0] for name in engines if name in self._seen)
