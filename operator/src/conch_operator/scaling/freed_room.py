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
        self._seen_s: dict[EngineName, float] = {}

    def look(self, engines: Iterable[ObservedEngine], rests: Callable[[ModelId], bool], now_s: float) -> None:
        """See which engines end now, or are about to since their model `rests`; one without a node leaves no room."""
        self._seen_s = {name: seen_s for name, seen_s in self._seen_s.items() if now_s - seen_s < SCHEDULED_AGAIN_S}
        for engine in engines:
            fault = engine.engine.fault
            had_node = fault is None or fault.reason is not Reason.UNSCHEDULABLE
            if had_node and (not engine.stays or rests(engine.engine.model)):
                self._seen_s[engine.name] = now_s

    @property
    def left_by(self) -> frozenset[EngineName]:
        """The engines whose room comes, or has come a moment ago."""
        return frozenset(self._seen_s)
