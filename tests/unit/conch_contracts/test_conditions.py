from conch_contracts.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    derive_ready,
    set_condition,
)


def condition(kind: ConditionType, status: ConditionStatus, reason: Reason = Reason.READY, at: str = "t0") -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=f"{reason}.", last_transition_time=at)


def test_transition_time_moves_only_with_the_status() -> None:
    first = condition(ConditionType.ENGINE_READY, ConditionStatus.FALSE, Reason.ENGINE_STARTING, "t0")
    same = condition(ConditionType.ENGINE_READY, ConditionStatus.FALSE, Reason.ENGINE_EXITED, "t1")
    other = condition(ConditionType.ENGINE_READY, ConditionStatus.TRUE, Reason.READY, "t2")
    (kept,) = set_condition(set_condition([], first), same)
    assert (kept.reason, kept.last_transition_time) == (Reason.ENGINE_EXITED, "t0")
    (moved,) = set_condition([kept], other)
    assert moved.last_transition_time == "t2"


def test_ready_takes_the_reason_of_the_first_condition_that_does_not_hold() -> None:
    conditions = [
        condition(ConditionType.WORKERS_READY, ConditionStatus.UNKNOWN, Reason.WAITING),
        condition(ConditionType.ENGINE_READY, ConditionStatus.FALSE, Reason.ENGINE_EXITED),
        condition(ConditionType.SOURCE_READY, ConditionStatus.TRUE),
    ]
    assert derive_ready(conditions) == (ConditionStatus.FALSE, Reason.ENGINE_EXITED, "EngineExited.")


def test_ready_is_true_when_every_condition_holds() -> None:
    conditions = [condition(ConditionType.SOURCE_READY, ConditionStatus.TRUE)]
    assert derive_ready(conditions) == (ConditionStatus.TRUE, Reason.READY, "")
