"""A rollout as its status tells it: what is on its way, done or stuck, beside whether requests work."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lupa.lua51 import LuaRuntime

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason
from conch_contracts.records import Pool
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import ModelStatus, describe
from conch_operator.state import (
    Desired,
    DesiredModel,
    EnginePhase,
    Fault,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    SourceFault,
)
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

MODEL = replace(desired_model(progressDeadline="10m"), generation=1)
EDITED = replace(MODEL, generation=2)
PUBLISHED = Published(frozenset({MODEL.id}))
BEGUN, SOON, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:09:59Z", "2026-01-01T00:10:00Z"
PULL = Fault(Reason.IMAGE_PULL_FAILED, "The image none:1 cannot be pulled. Check its name.")
NO_FOLDER = SourceFault(Reason.FOLDER_MISSING, "/models/nope does not exist. Check spec.source.")
NEW = "the hash of the edited spec"


def new_engine(index: int = 1, fault: Fault | None = None, probe: Probe = READY) -> ObservedEngine:
    made = engine(MODEL, index, probe=probe)
    phase = EnginePhase.BLOCKED if fault else EnginePhase.RUNNING
    return replace(made, engine=replace(made.engine, spec_hash=NEW, fault=fault, phase=phase))


def leaving_engine(probe: Probe = READY) -> ObservedEngine:
    return engine(MODEL, phase=EnginePhase.LEAVING, probe=probe)


def seen(*engines: ObservedEngine, spec: str = NEW, **changes: object) -> Observed:
    values: dict[str, object] = {"sources": {MODEL.id: FACTS}, "workers": {Pool.TOKENIZER: 1, Pool.LLM: 1}}
    return Observed(engines=engines, specs={MODEL.id: spec}, **(values | changes))  # type: ignore[arg-type]


def told(
    observed: Observed, before: ModelStatus | None = None, now: str = BEGUN, model: DesiredModel = EDITED
) -> ModelStatus:
    known = {} if before is None else {model.id: before}
    return describe(Desired((model,)), observed, PUBLISHED, known, now)[model.id]


def condition(status: ModelStatus, kind: str) -> Condition:
    found = status.condition(ConditionType(kind))
    assert found is not None
    return found


def kstatus(status: ModelStatus) -> str:
    """Return what kstatus says: the rules of its `checkGenericProperties` and `checkReadyCondition`."""
    if condition(status, "Reconciling").holds:
        return "InProgress"
    if condition(status, "Stalled").holds:
        return "Failed"
    return "Current" if condition(status, "Ready").holds else "InProgress"


def served() -> ModelStatus:
    """Return the status of a model that is all there."""
    old = engine(MODEL)
    return told(seen(old, spec=old.engine.spec_hash), model=MODEL)


def test_a_model_that_is_all_there_has_rolled_out() -> None:
    status = served()
    assert (condition(status, "Progressing").status, condition(status, "Progressing").reason) == (
        ConditionStatus.TRUE,
        Reason.NEW_ENGINE_AVAILABLE,
    )
    assert (status.replicas, status.updated_replicas, status.settled, kstatus(status)) == (1, 1, True, "Current")


def test_the_round_after_an_edit_knows_that_no_engine_is_of_the_new_spec() -> None:
    status = told(seen(engine(MODEL)), served(), SOON)
    progressing = condition(status, "Progressing")
    assert (progressing.holds, progressing.reason, progressing.observed_generation) == (True, Reason.ROLLING_OUT, 2)
    assert progressing.message == "0 of 1 engines of this spec answer."
    assert (status.ready, status.settled, status.updated_replicas, kstatus(status)) == (True, False, 0, "InProgress")


@pytest.mark.parametrize(
    ("observed", "reason", "says"),
    [
        (seen(engine(MODEL), new_engine(fault=PULL)), Reason.IMAGE_PULL_FAILED, PULL.message),
        (seen(engine(MODEL), sources={MODEL.id: NO_FOLDER}), Reason.FOLDER_MISSING, "/models/nope does not exist."),
        (
            seen(engine(MODEL), rejected={MODEL.id: Fault(Reason.REJECTED, "exceeded quota: none.")}),
            *(Reason.REJECTED, "exceeded quota: none."),
        ),
        (
            seen(engine(MODEL), new_engine(probe=Probe(ProbeVerdict.FAILING, Reason.ENGINE_LOAD_FAILED, "no layer"))),
            *(Reason.ENGINE_LOAD_FAILED, "no layer. Mend the cause"),
        ),
    ],
)
def test_an_edit_that_fails_is_told_at_once_and_is_stuck_at_its_deadline_while_the_old_engine_serves(
    observed: Observed, reason: Reason, says: str
) -> None:
    began = told(observed, served())
    progressing, ready = condition(began, "Progressing"), condition(began, "Ready")
    assert (progressing.status, progressing.reason) == (ConditionStatus.TRUE, reason)
    assert (ready.status, ready.reason) == (ConditionStatus.TRUE, reason)
    assert says in progressing.message
    assert says in ready.message
    assert {condition(began, kind).status for kind in ("EngineReady", "RoutePublished", "WorkersReady")} == {"True"}
    assert kstatus(told(observed, began, SOON)) == "InProgress"
    stuck = told(observed, told(observed, began, SOON), LATER)
    progressing = condition(stuck, "Progressing")
    assert (progressing.status, progressing.reason) == (ConditionStatus.FALSE, Reason.PROGRESS_DEADLINE_EXCEEDED)
    assert progressing.message.startswith("It has not got on for 10m: ")
    assert says in progressing.message
    assert (stuck.ready, kstatus(stuck)) == (True, "Failed")


def test_what_failed_of_the_spec_before_is_not_said_of_this_one() -> None:
    blocked = engine(MODEL)
    blocked = replace(blocked, engine=replace(blocked.engine, phase=EnginePhase.BLOCKED, fault=PULL))
    exited = engine(MODEL, 2)
    exited = replace(exited, engine=replace(exited.engine, phase=EnginePhase.EXITED, detail="ended with status 1."))
    for old in (blocked, exited):
        for new in ((), (new_engine(probe=Probe()),)):
            status = told(seen(old, *new), served())
            assert condition(status, "Ready").reason is Reason.ENGINE_STARTING
            messages = " ".join(one.message for one in status.conditions)
            assert "none:1" not in messages
            assert "ended with" not in messages


def test_a_message_without_end_leaves_a_status_that_can_be_written() -> None:
    status = told(seen(new_engine(fault=Fault(Reason.ENGINE_LOAD_FAILED, "x" * 100_000))))
    assert max(len(one.message) for one in status.conditions) == 32_768
    assert condition(status, "Ready").message.endswith("x …")


def test_a_mended_edit_begins_anew_and_comes_to_its_end() -> None:
    stuck = told(seen(engine(MODEL), new_engine(fault=PULL)), told(seen(engine(MODEL)), served()), LATER)
    stuck = told(seen(engine(MODEL), new_engine(fault=PULL)), stuck, "2026-01-01T00:30:00Z")
    assert kstatus(stuck) == "Failed"
    mended = told(seen(engine(MODEL)), stuck, "2026-01-01T00:31:00Z", replace(EDITED, generation=3))
    assert (condition(mended, "Progressing").reason, kstatus(mended)) == (Reason.ROLLING_OUT, "InProgress")
    done = told(seen(new_engine()), mended, "2026-01-01T00:32:00Z", replace(EDITED, generation=3))
    assert (done.settled, kstatus(done)) == (True, "Current")


def test_an_edit_alone_begins_the_deadline_anew() -> None:
    both = (engine(MODEL), new_engine(fault=PULL))
    stuck = told(seen(*both), told(seen(*both), served()), LATER)
    assert kstatus(stuck) == "Failed"
    edited = replace(EDITED, generation=3)
    same_engines = seen(*both, spec="the hash of the spec after it")
    status = told(same_engines, stuck, "2026-01-01T00:30:00Z", edited)
    assert (kstatus(status), status.last_progress_time) == ("InProgress", "2026-01-01T00:30:00Z")
    status = told(same_engines, status, "2026-01-01T00:39:59Z", edited)
    assert kstatus(status) == "InProgress"
    assert kstatus(told(same_engines, status, "2026-01-01T00:40:00Z", edited)) == "Failed"


def test_old_engines_that_are_left_belong_to_the_rollout() -> None:
    status = told(seen(engine(MODEL), new_engine()), served())
    assert (condition(status, "Progressing").reason, status.updated_replicas) == (Reason.ROLLING_OUT, 1)
    assert condition(status, "Progressing").message == "1 engines more than wanted are being ended."


@pytest.mark.parametrize(
    ("second", "outcome"),
    [("2 of 9 GB", "InProgress"), ("1 of 9 GB", "Failed")],
    ids=["goes on", "stands still"],
)
def test_a_download_that_goes_on_is_progress(second: str, outcome: str) -> None:
    def downloading(progress: str) -> Observed:
        return seen(engine(MODEL), sources={MODEL.id: SourceFault(Reason.DOWNLOADING, f"On their way: {progress}.")})

    status = told(downloading("1 of 9 GB"), served())
    status = told(downloading(second), status, SOON)
    assert kstatus(told(downloading(second), status, LATER)) == outcome


def test_what_goes_on_being_tried_is_no_progress() -> None:
    exited = engine(MODEL, phase=EnginePhase.EXITED, detail="ended with exit code 1.")
    starting = engine(MODEL, probe=Probe())
    spec = starting.engine.spec_hash
    status = told(seen(starting, spec=spec))
    for minute in range(10):
        status = told(seen(exited if minute % 2 else starting, spec=spec), status, f"2026-01-01T00:0{minute}:30Z")
        assert kstatus(status) == "InProgress"
    status = told(seen(exited, spec=spec), status, LATER)
    assert (status.ready, kstatus(status)) == (False, "Failed")
    assert "ended with exit code 1" in condition(status, "Stalled").message


def test_the_only_engine_may_be_replaced_without_a_word_of_failure() -> None:
    status = told(seen(leaving_engine(), new_engine(probe=Probe())), served())
    ready = condition(status, "Ready")
    assert (ready.status, ready.reason, status.ready_replicas) == (ConditionStatus.TRUE, Reason.READY, 1)
    assert condition(status, "EngineReady").holds


def test_the_last_engine_that_leaves_without_a_successor_is_not_called_older() -> None:
    no_room = new_engine(fault=Fault(Reason.UNSCHEDULABLE, "No node has room."), probe=Probe())
    ready = condition(told(seen(leaving_engine(), no_room), served()), "Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.TRUE, Reason.UNSCHEDULABLE)
    assert ready.message.startswith("Serves by an engine that is about to end, and none takes its place yet: No node")


def test_no_message_names_an_engine_that_leaves() -> None:
    failing = Probe(ProbeVerdict.FAILING, Reason.ENGINE_PROBE_FAILED, "Connection refused")
    status = told(seen(leaving_engine(failing), new_engine(probe=Probe())), served())
    assert not status.ready
    assert leaving_engine().name not in " ".join(one.message for one in status.conditions)


def test_a_model_without_wanted_engines_is_done_when_they_have_gone() -> None:
    idle = replace(desired_model(replicas=0), generation=2)
    going = told(seen(engine(MODEL)), served(), model=idle)
    assert condition(going, "Progressing").reason is Reason.ROLLING_OUT
    gone = told(seen(), going, model=idle)
    assert condition(gone, "Progressing").reason is Reason.NEW_ENGINE_AVAILABLE
    assert condition(gone, "Ready").reason is Reason.NO_REPLICAS


def test_an_operator_that_knows_no_last_progress_begins_to_count() -> None:
    before = served().model_copy(update={"last_progress_time": None})
    status = told(seen(engine(MODEL), new_engine(fault=PULL)), before, LATER)
    assert status.last_progress_time == LATER


HEALTH = Path(__file__).parents[4] / "examples" / "argo-cd" / "modeldeployment-health.lua"


def argo(status: ModelStatus | None, generation: int = 2) -> tuple[str, str]:
    """Return what the script for Argo CD says, in the dialect of Lua that Argo CD has."""
    lua: Any = LuaRuntime()
    content = None if status is None else status.model_dump(mode="json", by_alias=True)
    found = {"metadata": {"generation": generation}} | ({} if content is None else {"status": content})
    lua.globals().obj = lua.table_from(found, recursive=True)
    health = lua.execute(HEALTH.read_text())
    return health["status"], health["message"]


def test_argo_cd_tells_done_from_stuck() -> None:
    unseen = ("Progressing", "Conch has not looked at the model yet.")
    assert argo(None) == argo(served().model_copy(update={"observed_generation": 0})) == unseen
    assert argo(served(), generation=1) == ("Healthy", "")
    assert argo(served(), generation=2) == ("Progressing", "Conch has not looked at the last edit yet.")
    failing = seen(engine(MODEL), new_engine(fault=PULL))
    began = told(failing, served())
    assert argo(began) == ("Progressing", f"ImagePullFailed: {PULL.message}")
    assert argo(told(failing, began, LATER))[0] == "Degraded"
    assert argo(told(seen(new_engine()), began, LATER)) == ("Healthy", "")
    idle = replace(desired_model(replicas=0), generation=2)
    assert argo(told(seen(), began, LATER, idle))[0] == "Suspended"


ELSEWHERE = {"external": {"grpc": "10.0.0.1:8001", "dialect": "fastertransformer"}}


@pytest.mark.parametrize(
    ("probe", "updated", "health"),
    [
        (READY, 1, "Healthy"),
        (Probe(), 0, "Progressing"),
        (Probe(ProbeVerdict.FAILING, Reason.ENGINE_UNREACHABLE, "Nothing answers"), 0, "Progressing"),
        (Probe(ProbeVerdict.DEAD, Reason.ENGINE_PROBE_FAILED, "It is silent."), 0, "Progressing"),
    ],
)
def test_an_engine_of_someone_else_is_of_the_new_spec_once_it_answers(probe: Probe, updated: int, health: str) -> None:
    model = replace(desired_model(engine=ELSEWHERE), generation=2)
    before = told(seen(external={MODEL.id: READY}), model=replace(model, generation=1))
    now = told(seen(external={MODEL.id: probe}, replaced={MODEL.id: READY}), before, model=model)
    assert (now.ready, now.replicas, now.ready_replicas, now.updated_replicas) == (True, 1, 1, updated)
    assert (now.rolled_out, argo(now)[0]) == (updated == 1, health)
    assert kstatus(now) == ("Current" if updated else "InProgress")
