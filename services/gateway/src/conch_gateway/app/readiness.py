"""Whether requests should come, and which models a client may be told of: those that a request could reach.

The registry is read in an instant; tokenizers and workers announce themselves when they have started, which takes
longer. Whoever has once been known is believed to come back: a process that ends makes no gateway unready. Nor does a
model that comes later: until its first process is there its own requests are told so, and all others are answered.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from conch_contracts.records import ModelKind, Pool, needed_pools
from conch_kit.registry.snapshot import Snapshot

PATIENCE_S = 60.0
"""How long a gateway that can serve some kinds of models waits for the processes of others, which may be broken."""


@dataclass(slots=True)
class Readiness:
    """What this gateway has seen of the registry so far; subscribes to its snapshots."""

    clock: Callable[[], float] = time.monotonic
    draining: bool = False
    """A signal has asked the process to end."""
    _snapshot: Snapshot | None = None
    _known: set[Pool] = field(default_factory=set)
    _since: float | None = None
    """When models were first seen."""
    _was_ready: bool = False
    """Whether requests have once been let come: nothing but the end of the process takes that back."""

    def apply(self, snapshot: Snapshot) -> None:
        """Take over what was read of the registry; before its first complete list that is processes only."""
        self._snapshot = snapshot if snapshot.epoch else None
        self._known.update(pool for pool, beats in snapshot.workers.items() if beats)
        if snapshot.routes and self._since is None:
            self._since = self.clock()

    def snapshot(self) -> Snapshot | None:
        """Return the registry as last seen; None until it was read once."""
        return self._snapshot

    def known(self, pool: Pool) -> bool:
        """Tell whether a process of this pool has once been there."""
        return pool in self._known

    def reachable(self, kind: ModelKind) -> bool:
        """Tell whether all that requests to models of this kind need beside an engine has once been there."""
        return self._known.issuperset(needed_pools(kind))

    def not_ready(self) -> str | None:
        """Return why no requests should come; None when they may."""
        if self.draining:
            return "draining"
        if self._snapshot is None:
            return "waiting for the registry in Redis"
        if self._was_ready:
            return None
        lack = self._lacking(self._snapshot)
        self._was_ready = lack is None
        return lack

    def _lacking(self, snapshot: Snapshot) -> str | None:
        if self._since is None:
            return None
        kinds = {route.kind for route in snapshot.routes.values()}
        missing = sorted({pool for kind in kinds for pool in needed_pools(kind)} - self._known)
        patient = self.clock() - self._since < PATIENCE_S
        if missing and (patient or not any(self.reachable(kind) for kind in kinds)):
            return (
                f"waiting for a process of the kind {' and of the kind '.join(missing)}; see the logs of that service"
            )
        return None
