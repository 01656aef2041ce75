"""What is known of one model of an EnginePool between rounds, and when one that has failed is tried again."""

from dataclasses import dataclass, field

from conch_contracts.names import PoolId
from conch_operator.engine_pools.residency import Member, Place
from conch_operator.reconcile.status import ModelStatus
from conch_operator.scaling.starts import StartTimes
from conch_operator.state import DesiredModel, Fault, ObservedEngine
from conch_operator.timestamps import timestamp

_FIRST_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 600.0
_MOST_DOUBLINGS = 10
"""More than from the one to the other; after a week of failures their number is too large a power of two."""


@dataclass(slots=True)
class KnownModel:
    """What is known of one model between rounds."""

    pool: PoolId
    deployed: DesiredModel
    starts: StartTimes = field(default_factory=StartTimes)
    place: Place = Place.OUT
    engines: tuple[ObservedEngine, ...] = ()
    spec: str | None = None
    """The hash that its engine is to have; None while its folder was not read."""
    proven: str | None = None
    """The hash of the last spec that has answered."""
    estimate_bytes: int = 0
    measured: tuple[str, int] | None = None
    """The spec, and how much memory it took at its largest: it grows, and shares less as others end."""
    waits_since_s: float | None = None
    asked_for: bool = False
    woken_until: float | None = None
    """The time of the call to wake it that has had its effect, in Unix seconds: one call brings it in once."""
    wished_at_s: float | None = None
    """Since when somebody had waited for it when it was let in, until it is ready."""
    came_at_s: float = 0.0
    ready_at_s: float = 0.0
    used_at_s: float = 0.0
    stopping: bool = False
    """Whether it is to end, since nothing of it is left at any gateway."""
    left_at: int | None = None
    """The revision of the registry that first lacked its engine."""
    told: ModelStatus | None = None
    """What was said of this very spec before anybody here knew the model: an operator believes the one before it."""
    failure: Fault | None = None
    failures: int = 0
    failed_at_s: float = 0.0
    changed_at: str | None = None

    @property
    def has_answered(self) -> bool:
        """Return whether an engine of its spec has answered; while its folder is not read, as far as was told."""
        told = self.told is not None and self.told.observed_generation == self.deployed.generation
        return told or self.proven is not None

    @property
    def pinned(self) -> bool:
        """Return whether it is to be in always."""
        placement = self.deployed.deployment.spec.placement
        return placement is not None and placement.pinned

    @property
    def size_bytes(self) -> int:
        """Return how much memory it takes, as measured of its spec, else as was thought."""
        if self.measured is not None and self.measured[0] == self.spec:
            return self.measured[1]
        return self.estimate_bytes

    @property
    def is_in(self) -> bool:
        """Return whether it is loaded or is being loaded, and is to stay."""
        return self.place in (Place.LOADING, Place.READY)

    def goes_to(self, place: Place, now_s: float) -> None:
        """Note a change of place."""
        if place is Place.LOADING:
            self.came_at_s = self.used_at_s = now_s
        elif place is Place.READY:
            self.ready_at_s = now_s
        if place is Place.LEAVING or self.place is Place.LEAVING:
            self.stopping, self.left_at = False, None
        self.place, self.changed_at = place, timestamp()

    def fails(self, now_s: float) -> None:
        """Note that it is not to be tried for a while."""
        self.failures += 1
        self.failed_at_s = now_s

    def may_be_tried(self, now_s: float) -> bool:
        """Return whether it has not failed, or long enough ago."""
        if self.failures == 0:
            return True
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, _MOST_DOUBLINGS))
        return now_s - self.failed_at_s >= pause_s

    def is_due(self, now_s: float) -> bool:
        """Return whether it is to come in although nobody waits for it: to stay, or to show whether it loads."""
        wanted = self.pinned or self.proven != self.spec or self.failure is not None
        return wanted and self.spec is not None and self.may_be_tried(now_s)

    @property
    def cause(self) -> str:
        """Return what its status says of where it is."""
        match self.place:
            case Place.LOADING | Place.READY:
                return "Pinned" if self.pinned else "Resident"
            case Place.LEAVING:
                return "Leaving"
            case Place.OUT:
                return "Out" if self.waits_since_s is None else "Waiting"

    def member(self, now_s: float) -> Member:
        """Return what matters of it for who is in."""
        loadable = self.spec is not None and not self.engines and self.may_be_tried(now_s)
        waits = self.place is Place.OUT and loadable and self.waits_since_s is not None
        return Member(
            model=self.deployed.id,
            size_bytes=self.size_bytes,
            place=self.place,
            pinned=self.pinned,
            waits_s=now_s - self.waits_since_s if waits and self.waits_since_s is not None else None,
            may_force=self._may_force(now_s),
            ready_for_s=now_s - self.ready_at_s if self.place is Place.READY else 0.0,
            idle_s=now_s - self.used_at_s,
            asked_for=self.asked_for,
        )

    def _may_force(self, now_s: float) -> bool:
        """Return whether a busy one may have to go for it: if it has worked before, or has long been left out."""
        worked = self.failures == 0 or self.proven == self.spec
        return worked or now_s - self.failed_at_s >= _LONGEST_PAUSE_S
