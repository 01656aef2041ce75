"""What is known of one model that scales, between one look at its engines and the next."""

import math
from dataclasses import dataclass, field

from conch_contracts.spec.scaling import ScalingSpec
from conch_operator.scaling.decision import Bounds, EngineScaler, EnginesSeen
from conch_operator.scaling.node_wait import NodeWait
from conch_operator.scaling.starts import StartTimes
from conch_operator.state import DesiredModel, EngineName, Fault, SourceFault

QUIET_S = 5.0
"""The longest time between two looks at a model that nobody asks."""
QUIET_PART = 1 / 60
"""The same, as a part of its `idleAfter`, where that is less."""


@dataclass(slots=True)
class Wish:
    """A request or a call for a model that has no engine, until one answers."""

    at_s: float
    called: bool = False
    """Whether the cluster was told to start an engine."""


@dataclass(slots=True)
class ScaledModel:
    """What is known of one model between rounds."""

    spec: str
    """What of the spec engines are made from, or may fail at; an engine of another one proves nothing about it."""
    deployed: DesiredModel
    bounds: Bounds | None
    """Those of its spec; None where somebody else decides."""
    scaler: EngineScaler
    starts: StartTimes
    proven: bool
    """Whether an engine of this spec has answered."""
    scaled_at: str | None
    patience_from_s: float
    """When an engine last answered, or one was begun to be waited for; `progressDeadline` counts from here."""
    seen: EnginesSeen = field(default_factory=EnginesSeen)
    began_s: dict[EngineName, float | None] | None = None
    """When each engine was first seen that does not answer yet; None for one that has."""
    answered: dict[EngineName, int] = field(default_factory=dict)
    """Of each engine, the incarnation that last answered; -1 where none has."""
    wish: Wish | None = None
    complete: bool = False
    """Whether every gateway has said what there is to do for it."""
    looked_at_s: float = 0.0
    """When it was last decided about."""
    quiet: bool = False
    """Whether every gateway had said that it has nothing to do for it, and it was not about to rest."""
    least: int = 1
    """How many engines it is to have at least, as was last decided."""
    lends: bool = False
    """Whether it is to rest early, since another model waits for the room of its engines."""
    drained_since_s: float | None = None
    edited: bool = False
    """Whether only an engine of an earlier spec has answered."""
    unreadable: Fault | None = None
    """What is wrong with the folder."""
    was_away: bool = False
    """Whether the folder could not be served, and has not been read since."""
    storable: bool = True
    """Whether the registry holds all that a request needs while no engine runs."""
    failure: Fault | None = None
    """Why an engine does not start, where that is not only a matter of time."""
    node_wait: NodeWait | None = None
    """Its wait while no node has room for an engine."""
    told: DesiredModel | None = None
    """What rounds were told of it last: the very same again, as long as nothing of that changes."""
    told_of: DesiredModel | None = None
    """From what that was made."""

    @property
    def room_comes(self) -> bool:
        """Whether its engine waits for the room of others, and not for a node."""
        return self.node_wait is not None and self.node_wait.room_comes

    @property
    def cannot_start(self) -> bool:
        """Whether an engine that ended would not be started again, since its folder is unreadable now."""
        return isinstance(self.unreadable, SourceFault) and self.unreadable.is_of_now

    def is_due(self, now_s: float, *, complete: bool) -> bool:
        """Return whether time alone may have changed what was decided.

        A model at rest without schedules waits for somebody. One that nobody asks is looked at more seldom, the longer
        that may go on, while what the gateways have said is `complete`.
        """
        if self.scaling is not None and self.scaling.schedules:
            return True
        if self.scaler.desired == 0:
            return False
        idle_after_s = math.inf if self.bounds is None else self.bounds.idle_after_s
        return not (self.quiet and complete) or now_s - self.looked_at_s >= min(QUIET_S, idle_after_s * QUIET_PART)

    @property
    def scaling(self) -> ScalingSpec | None:
        """What its spec says about scaling; None where somebody else decides."""
        return self.deployed.deployment.spec.scaling
