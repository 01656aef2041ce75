"""Pure: why no engine of a model starts, where that is not only a matter of time."""

from collections.abc import Iterable, Mapping, Sequence

from conch_contracts.conditions import ON_THE_WAY, Reason
from conch_operator.state import (
    DesiredModel,
    EngineName,
    EnginePhase,
    Fault,
    Observed,
    ObservedEngine,
    ProbeVerdict,
    SourceFault,
)

_BEFORE_A_START = frozenset(
    {
        Reason.REJECTED,
        Reason.UNSCHEDULABLE,
        Reason.SECRET_NOT_FOUND,
        Reason.CLAIM_NOT_FOUND,
        Reason.CONFIG_MAP_NOT_FOUND,
        Reason.VOLUME_NOT_MOUNTED,
    }
)
"""Reasons that are over as soon as nothing says them any more."""


def start_faults(
    model: DesiredModel,
    engines: Iterable[ObservedEngine],
    observed: Observed,
    answered: Mapping[EngineName, int],
) -> list[Fault | None]:
    """Return why each of these engines does not start, and why others cannot be made; None for one that may answer.

    `answered`: of each, the incarnation that last answered. One that answered and then ended, fell silent or gives
    errors has not failed to start: it is started again, and may well answer. One that is not started again counts only
    while no other is there, and one may be made.
    """
    rejected, engines = observed.rejected.get(model.id), [*engines]
    hopes = [engine for engine in engines if engine.engine.comes_back]
    if not hopes and rejected is None:
        hopes = engines
    return [*([] if rejected is None else [rejected]), *(_fault_of(engine, answered) for engine in hopes)]


def failure_of_all(faults: Sequence[Fault | None]) -> Fault | None:
    """Return why no engine starts; None while one of them may answer, and where there are no faults."""
    found = [fault for fault in faults if fault is not None]
    if len(found) < len(faults):
        return None
    return min(found, key=lambda fault: fault.reason is Reason.UNSCHEDULABLE, default=None)


def _fault_of(engine: ObservedEngine, answered: Mapping[EngineName, int]) -> Fault | None:
    if (fault := engine.engine.fault) is not None and fault.reason not in ON_THE_WAY:
        return fault
    has_answered = answered.get(engine.name) == engine.engine.incarnation
    if engine.engine.phase is EnginePhase.EXITED and not has_answered:
        return Fault(Reason.ENGINE_EXITED, f"The engine {engine.engine.detail}")
    if _is_refused(engine, has_answered=has_answered):
        return Fault(engine.probe.reason, engine.probe.message)
    return None


def source_failure(model: DesiredModel, observed: Observed) -> Fault | None:
    """Return what is wrong with a model's folder; None where nothing is known to be."""
    facts = observed.sources.get(model.id)
    return facts if isinstance(facts, SourceFault) and facts.reason not in ON_THE_WAY else None


def outlasts_a_pause(failure: Fault | None) -> bool:
    """Return whether a failure stands while nothing tells of it: one of an engine that is tried again and again."""
    return failure is not None and failure.reason not in _BEFORE_A_START


def _is_refused(engine: ObservedEngine, *, has_answered: bool) -> bool:
    if engine.probe.verdict not in (ProbeVerdict.FAILING, ProbeVerdict.DEAD):
        return False
    if engine.probe.reason is Reason.ENGINE_LOAD_FAILED:
        return True
    return not has_answered and engine.probe.reason not in (*ON_THE_WAY, Reason.ENGINE_UNREACHABLE)
