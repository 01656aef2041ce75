"""Pure: what is said of a model's demand. What is not known for certain asks for more engines only, never for fewer.

KEDA leaves the number of engines as it is when a call fails, or goes by `fallback` of the ScaledObject; a value that
is too small would take engines away from requests that nobody has told of.
"""

from dataclasses import replace
from math import ceil

from conch_operator.scaling.decision import ModelLoad

QUIET_S = 2.0
"""How long nothing must have been there before a stream says so: as long as a gateway may say nothing. Requests that
come one after the other are no new beginning each."""


def needed(load: ModelLoad, *, called: bool, proven: bool) -> ModelLoad:
    """Return a load with at least one sequence where an engine is needed without one.

    Somebody has called for the model, or it is not proven yet that an engine of it works: else nobody would know
    whether a request could have one started.
    """
    return replace(load, sequences=1) if load.sequences == 0 and (called or not proven) else load


def is_active(load: ModelLoad) -> bool | None:
    """Return whether there is anything to do; None where nobody knows."""
    if load.sequences > 0:
        return True
    return False if load.complete else None


def metric_of(load: ModelLoad, per_engine: float, engines: int) -> int | None:
    """Return how many sequences there are; None where nobody knows and those that are known of need no more engines."""
    if load.complete or ceil(load.sequences / per_engine) > engines:
        return load.sequences
    return None


class ActivityNews:
    """What is new for one stream: that there is something to do at once, that there is nothing after a while."""

    def __init__(self) -> None:
        self._said: bool | None = None
        self._quiet_since_s: float | None = None

    def look(self, active: bool | None, now_s: float) -> bool | None:
        """Return what is to be said now, and take it for said; None: nothing."""
        if active is not False:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        if active is None or active is self._said or not (active or self._is_quiet(now_s)):
            return None
        self._said = active
        return active

    def _is_quiet(self, now_s: float) -> bool:
        """Return whether it has been quiet for long enough; who has not heard anything yet hears it at once."""
        since_s = self._quiet_since_s
        return self._said is None or (since_s is not None and now_s - since_s >= QUIET_S)
