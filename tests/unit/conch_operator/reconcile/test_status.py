from collections.abc import Mapping
from dataclasses import replace

import pytest

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.records import Pool
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import ModelStatus, describe
from conch_operator.routes.route import make_route
from conch_operator.state import Desired, DesiredModel, EnginePhase, Fault, Observed, Probe, ProbeVerdict
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

OURS = replace(desired_model(), generation=1)
ELSEWHERE = replace(desired_model(engine={"external": {"grpc": "10.0.0.1:8001", "dialect": "tokens"}}), generation=1)
ROUTED = {OURS.id: (make_route(OURS, FACTS, OURS.deployment.served_names, []), ())}
"""What this operator found in the registry when it began."""
BLOCKED = engine(OURS, phase=EnginePhase.BLOCKED, probe=Probe())
UNSCHEDULABLE = Fault(Reason.UNSCHEDULABLE, "No node can run the engine.")
FAILING = Probe(ProbeVerdict.FAILING, Reason.ENGINE_UNREACHABLE, "Nothing answers")
EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def seen(model: DesiredModel, probe: Probe, **changes: object) -> Observed:
    """Return what an operator observes whose probe of the only engine says this."""
    found: Mapping[str, object] = {
        "sources": {model.id: FACTS},
        "workers": {Pool.TOKENIZER: 1, Pool.LLM: 1},
        "routed": ROUTED,
        **({"external": {model.id: probe}} if model is ELSEWHERE else {"engines": (engine(model, probe=probe),)}),
    }
    ours = {} if model is ELSEWHERE else {"specs": {model.id: engine(model).engine.spec_hash}}
    return Observed(**{**found, **ours, **changes})  # type: ignore[arg-type]


def told(model: DesiredModel, observed: Observed, before: ModelStatus | None, now: str = NOW) -> ModelStatus:
    known = {} if before is None else {model.id: before}
    return describe(Desired((model,)), observed, Published(frozenset({model.id})), known, now)[model.id]


def served(model: DesiredModel) -> ModelStatus:
    """Return what the operator before this one said."""
    status = told(model, seen(model, READY), None, EARLIER)
    assert status.settled
    return status


@pytest.mark.parametrize("model", [OURS, ELSEWHERE], ids=["ours", "elsewhere"])
def test_the_last_word_stands_until_a_new_operator_has_asked_the_engine(model: DesiredModel) -> None:
    before = served(model)
    assert told(model, seen(model, Probe()), before) is before
    assert not told(model, seen(model, FAILING), before).ready


@pytest.mark.parametrize("model", [OURS, ELSEWHERE], ids=["ours", "elsewhere"])
def test_the_last_word_stands_until_the_folder_is_read(model: DesiredModel) -> None:
    before = served(model)
    assert told(model, seen(model, READY, sources={}), before) is before


def test_the_last_word_does_not_stand_for_a_model_whose_pool_is_gone_and_with_it_who_reads_its_folder() -> None:
    gone = Fault(Reason.POOL_NOT_FOUND, "There is no EnginePool small.")
    observed = replace(seen(OURS, Probe(), sources={}), engines=(), rejected={OURS.id: gone})
    status = told(OURS, observed, served(OURS))
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert (status.ready, ready.reason) == (False, Reason.POOL_NOT_FOUND)


def test_why_no_engine_starts_is_told_though_nobody_has_read_the_folder() -> None:
    """Such as that of a model that the operator has found at rest, and that is woken."""
    engines = (replace(BLOCKED, engine=replace(BLOCKED.engine, fault=UNSCHEDULABLE)),)
    status = told(OURS, seen(OURS, Probe(), sources={}, engines=engines), served(OURS))
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.holds, ready.reason, ready.message) == (False, UNSCHEDULABLE.reason, UNSCHEDULABLE.message)


@pytest.mark.parametrize("model", [OURS, ELSEWHERE], ids=["ours", "elsewhere"])
def test_a_model_that_had_no_route_is_not_taken_for_served(model: DesiredModel) -> None:
    status = told(model, seen(model, Probe(), routed={}), served(model))
    assert (status.ready, status.ready_replicas) == (False, 0)


def test_the_last_word_is_not_about_an_edited_spec() -> None:
    edited = replace(OURS, generation=2)
    status = told(edited, seen(edited, Probe()), served(OURS))
    assert (status.ready, status.observed_generation) == (False, 2)


def test_the_last_word_is_not_kept_of_a_model_that_did_not_serve() -> None:
    before = told(OURS, seen(OURS, FAILING), None, EARLIER)
    assert told(OURS, seen(OURS, Probe()), before) is not before


@pytest.mark.parametrize("phase", [EnginePhase.EXITED, EnginePhase.STARTING, EnginePhase.BLOCKED])
def test_an_engine_that_does_not_run_is_seen_without_being_asked(phase: EnginePhase) -> None:
    engines = (engine(OURS, phase=phase, probe=Probe()),)
    assert not told(OURS, seen(OURS, Probe(), engines=engines), served(OURS)).ready


def test_one_engine_that_was_asked_is_enough_to_tell() -> None:
    engines = (engine(OURS, probe=Probe()), engine(OURS, 1))
    status = told(OURS, seen(OURS, Probe(), engines=engines), served(OURS))
    assert (status.ready, status.ready_replicas, status.replicas) == (True, 1, 2)
