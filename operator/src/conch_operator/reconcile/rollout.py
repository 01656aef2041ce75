"""Pure: whether what a spec asks for gets on, as conditions.

Progressing says it as a Deployment's does. Reconciling and Stalled say the same for kstatus, by which Helm and Flux
tell what is done from what is stuck. The time of the last progress is kept in the status, for the next operator.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from conch_contracts.conditions import ON_THE_WAY, Condition, ConditionStatus, ConditionType, Reason
from conch_contracts.spec.fields import format_duration
from conch_operator.state import Fault

_LOOK = (
    "See what the engine's pod does (kubectl describe, kubectl logs); raise spec.progressDeadline if it needs longer."
)
_NO_DETAIL = "What the spec asks for is being started."


@dataclass(frozen=True, slots=True)
class Milestones:
    """How far a model has come; two of them show whether it got on in between."""

    generation: int
    done: bool
    """Whether everything is there for which the spec asks."""
    engines: int
    ready: int
    """How many engines serve."""
    updated: int
    """How many engines are of the spec."""
    reached: frozenset[ConditionType]
    """The conditions that hold."""
    download: str
    """How far a download is; empty while none goes on."""

    def is_beyond(self, before: "Milestones") -> bool:
        """Return whether it has got on since."""
        if (self.generation, self.done) != (before.generation, before.done):
            return True
        if self.done:
            return False
        counts = self.updated > before.updated or self.ready > before.ready or self.engines < before.engines
        return counts or bool(self.reached - before.reached) or self.download not in ("", before.download)


def rollout_conditions(
    fault: Fault | None, deadline_s: float, generation: int, last_progress: str, now: str
) -> tuple[Condition, ...]:
    """Return Progressing, Reconciling and Stalled; `fault`: what is not there yet, or fails."""
    stalled = fault is not None and datetime.fromisoformat(now) >= stalls_at(last_progress, deadline_s)
    reason, message = _said(fault, deadline_s if stalled else None)
    states = {
        ConditionType.PROGRESSING: not stalled,
        ConditionType.RECONCILING: fault is not None and not stalled,
        ConditionType.STALLED: stalled,
    }
    return tuple(
        Condition(
            type=kind,
            status=ConditionStatus.TRUE if holds else ConditionStatus.FALSE,
            reason=reason,
            message=message,
            last_transition_time=now,
            observed_generation=generation,
        )
        for kind, holds in states.items()
    )


def stalls_at(last_progress: str, deadline_s: float) -> datetime:
    """Return from when on a model is stuck that does not get on."""
    return datetime.fromisoformat(last_progress) + timedelta(seconds=deadline_s)


def _said(fault: Fault | None, exceeded_s: float | None) -> tuple[Reason, str]:
    if fault is None:
        return Reason.NEW_ENGINE_AVAILABLE, ""
    on_the_way = fault.reason in ON_THE_WAY
    message = fault.message or _NO_DETAIL
    if exceeded_s is not None:
        waited = f"It has not got on for {format_duration(exceeded_s)}: {message}"
        return Reason.PROGRESS_DEADLINE_EXCEEDED, f"{waited} {_LOOK}" if on_the_way else waited
    if on_the_way and fault.reason is not Reason.DOWNLOADING:
        return Reason.ROLLING_OUT, message
    return fault.reason, message
