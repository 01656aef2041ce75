"""The wait of a model for which no node has room."""

from collections.abc import Set
from dataclasses import dataclass, field

from conch_contracts.names import ModelId
from conch_operator.state import EngineName


@dataclass(slots=True)
class NodeWait:
    """Goes on until its engine has a node."""

    since_s: float
    room_of: frozenset[EngineName]
    """The engines that had begun to end by then, or were lent since, and have not left their room yet."""
    may_borrow: bool = True
    """Whether another model could rest for it; so until a round has looked who could."""
    lent_at_s: list[float] = field(default_factory=list)
    """When others have rested for it."""
    lenders: Set[ModelId] = frozenset()
    """The models that might have lent their room in this time, once they had nothing to do."""
    hoped_since_s: float = 0.0
    """When the last of them came."""

    def note_lenders(self, lenders: Set[ModelId], now_s: float) -> None:
        """Note which models may lend their room now."""
        if lenders - self.lenders:
            self.hoped_since_s = now_s
        self.lenders |= lenders

    @property
    def room_comes(self) -> bool:
        """Whether its engine waits for the room of others, and not for a node."""
        return self.may_borrow or bool(self.room_of)
