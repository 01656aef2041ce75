from collections.abc import Mapping
from dataclasses import replace

import pytest

from conch_contracts.conditions import ConditionStatus, ConditionType, Reason
from conch_contracts.names import ModelId
from conch_contracts.records import Pool, Route
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import describe
from conch_operator.routes.route import make_route
from conch_operator.state import (
    Desired,
    DesiredModel,
    EnginePhase,
    Fault,
    GenerationFacts,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    SourceFault,
    Unreadable,
)
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

MODEL = desired_model()
EXTERNAL = desired_model(engine={"external": {"grpc": "10.0.0.1:8001", "dialect": "fastertransformer"}})
NOW = "2026-01-01T00:00:00Z"
WORKERS = {Pool.TOKENIZER: 1, Pool.LLM: 1}
PUBLISHED = Published(frozenset({MODEL.id}))


def observed(model: DesiredModel = MODEL, workers: Mapping[Pool, int] = WORKERS, **changes: object) -> Observed:
    values: dict[str, object] = {"sources": {model.id: FACTS}, "engines": (engine(MODEL),), "workers": workers}
    values["specs"] = {MODEL.id: engine(MODEL).engine.spec_hash}
    return Observed(**(values | changes))  # type: ignore[arg-type]


def fault(reason: Reason) -> Mapping[str, SourceFault]:
    return {MODEL.id: SourceFault(reason, "It is so.")}


def failing(reason: Reason, message: str) -> Probe:
    return Probe(ProbeVerdict.FAILING, reason, message)


@pytest.mark.parametrize(
    ("model", "seen", "published", "condition", "reason", "message"),
    [
        (
            MODEL,
            observed(sources=fault(Reason.FOLDER_MISSING), engines=()),
            *(PUBLISHED, "SourceReady", "FolderMissing", "It is so."),
        ),
        (
            MODEL,
            observed(sources=fault(Reason.TOKENIZER_INVALID), engines=()),
            *(PUBLISHED, "TokenizerReady", "TokenizerInvalid", ""),
        ),
        (desired_model(replicas=0), observed(engines=()), PUBLISHED, "EngineReady", "NoReplicas", "set it to 1"),
        (desired_model(replicas=0), observed(sources={}, engines=()), PUBLISHED, "SourceReady", "NoReplicas", "set it"),
        (MODEL, observed(engines=()), PUBLISHED, "EngineReady", "EngineStarting", "being started"),
        (
            MODEL,
            observed(engines=(engine(MODEL, phase=EnginePhase.EXITED, detail="was killed by SIGKILL."),)),
            *(PUBLISHED, "EngineReady", "EngineExited", "was killed by SIGKILL. It is started again."),
        ),
        (
            MODEL,
            observed(engines=(engine(MODEL, probe=failing(Reason.ENGINE_LOAD_FAILED, "no such layer")),)),
            *(
                PUBLISHED,
                "EngineReady",
                "EngineLoadFailed",
                "no such layer. Mend the cause; the engine is started again until it loads",
            ),
        ),
        (
            EXTERNAL,
            observed(external={MODEL.id: failing(Reason.ENGINE_UNREACHABLE, "Nothing answers")}),
            *(PUBLISHED, "EngineReady", "EngineUnreachable", "Nothing answers. Check spec.engine.external, the way"),
        ),
        (MODEL, observed(), Published(error="refused"), "RoutePublished", "RegistryUnavailable", "refused"),
        (MODEL, observed(), Published(), "RoutePublished", "RoutePending", ""),
        (MODEL, observed(workers={Pool.LLM: 1}), PUBLISHED, "WorkersReady", "WorkersMissing", "No tokenizer"),
    ],
)
def test_the_first_policy_that_objects_is_the_reason(
    model: DesiredModel, seen: Observed, published: Published, condition: str, reason: str, message: str
) -> None:
    status = describe(Desired((model,)), seen, published, {}, NOW)[model.id]
    failed = status.condition(ConditionType(condition))
    ready = status.condition(ConditionType.READY)
    assert failed is not None
    assert ready is not None
    assert (failed.status, failed.reason) == (ConditionStatus.FALSE, reason)
    assert message in failed.message
    assert (ready.status, ready.reason, ready.message) == (failed.status, failed.reason, failed.message)
    assert not status.ready


def test_a_model_with_everything_is_ready() -> None:
    status = describe(Desired((MODEL,)), observed(), PUBLISHED, {}, NOW)[MODEL.id]
    assert status.ready
    assert status.ready_replicas == 1
    assert {condition.type for condition in status.conditions if not condition.holds} == {"Reconciling", "Stalled"}


def test_one_ready_engine_of_two_is_enough() -> None:
    engines = (engine(MODEL, 0, phase=EnginePhase.EXITED), engine(MODEL, 1))
    assert describe(Desired((MODEL,)), observed(engines=engines), PUBLISHED, {}, NOW)[MODEL.id].ready


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (engine(MODEL, 1), ""),
        (engine(MODEL, 1, probe=Probe()), ""),
        (engine(MODEL, 1, phase=EnginePhase.STOPPING), ""),
        (
            engine(MODEL, 1, probe=failing(Reason.ENGINE_LOAD_FAILED, "no such layer")),
            f"One engine fails while others serve: {engine(MODEL, 1).name}: no such layer. Mend the cause; "
            "the engine is started again until it loads.",
        ),
    ],
)
def test_an_engine_that_fails_beside_one_that_serves_is_told(other: ObservedEngine, says: str) -> None:
    two = desired_model(replicas=2)
    status = describe(Desired((two,)), observed(engines=(engine(MODEL), other)), PUBLISHED, {}, NOW)[MODEL.id]
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.message) == (ConditionStatus.TRUE, says)


@pytest.mark.parametrize("phase", [EnginePhase.EXITED, EnginePhase.STARTING, EnginePhase.RUNNING])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside one that serves"])
def test_how_an_engine_ended_is_the_reason_until_it_answers_again(phase: EnginePhase, others: int) -> None:
    model = desired_model(replicas=1 + others)
    crashed = engine(MODEL, phase=phase, detail="was killed by SIGKILL.", probe=Probe())
    engines = (crashed, *(engine(MODEL, 1 + index) for index in range(others)))
    ready = describe(Desired((model,)), observed(engines=engines), PUBLISHED, {}, NOW)[MODEL.id].condition(
        ConditionType.READY
    )
    assert ready is not None
    assert (ready.status, ready.reason) == (ConditionStatus(str(others > 0)), Reason.ENGINE_EXITED)
    assert "was killed by SIGKILL." in ready.message


@pytest.mark.parametrize("reason", [Reason.TEMPLATE_INVALID, Reason.CONFIG_MAP_NOT_FOUND, Reason.FOLDER_MISSING])
@pytest.mark.parametrize(
    ("model", "seen"),
    [(MODEL, observed()), (EXTERNAL, observed(engines=(), external={MODEL.id: READY}))],
    ids=["ours", "elsewhere"],
)
def test_what_a_served_model_lacks_beside_its_engines_is_no_engines_fault(
    model: DesiredModel, seen: Observed, reason: Reason
) -> None:
    seen = replace(seen, sources=fault(reason))
    ready = describe(Desired((model,)), seen, PUBLISHED, {}, NOW)[MODEL.id].condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == (ConditionStatus.TRUE, reason)
    assert ready.message == "It is so. Until then the model is served as before."


@pytest.mark.parametrize("reason", [Reason.REJECTED, Reason.NOT_HERE])
def test_a_refused_change_is_told_while_the_model_serves_and_forgotten_when_it_is_taken(reason: Reason) -> None:
    seen = observed(rejected={MODEL.id: Fault(reason, "Bad nodeSelector.")})
    refused = describe(Desired((MODEL,)), seen, PUBLISHED, {}, NOW)
    ready, applied = (refused[MODEL.id].condition(kind) for kind in (ConditionType.READY, ConditionType.APPLIED))
    assert ready is not None
    assert applied is not None
    assert (ready.status, ready.reason) == (ConditionStatus.TRUE, reason)
    assert ready.message == "Serves while a change is refused: Bad nodeSelector."
    assert (applied.status, applied.reason, applied.message) == (ConditionStatus.FALSE, reason, "Bad nodeSelector.")
    cured = describe(Desired((MODEL,)), observed(), PUBLISHED, refused, NOW)[MODEL.id]
    assert cured.settled
    assert {one.message for one in cured.conditions} == {""}


def test_a_refused_model_without_an_engine_is_not_ready() -> None:
    seen = observed(engines=(), rejected={MODEL.id: Fault(Reason.REJECTED, "A quota.")})
    status = describe(Desired((MODEL,)), seen, PUBLISHED, {}, NOW)[MODEL.id]
    found = {one.type: (one.status, one.reason) for one in status.conditions}
    assert found[ConditionType.ENGINE_READY] == (ConditionStatus.FALSE, Reason.REJECTED)
    assert found[ConditionType.APPLIED] == (ConditionStatus.FALSE, Reason.REJECTED)
    assert found[ConditionType.READY] == (ConditionStatus.FALSE, Reason.REJECTED)


def test_an_external_engine_that_answers_makes_ready() -> None:
    seen = observed(engines=(), external={MODEL.id: READY})
    assert describe(Desired((EXTERNAL,)), seen, PUBLISHED, {}, NOW)[MODEL.id].ready


def test_a_ready_model_says_which_defaults_of_its_folder_nobody_obeys() -> None:
    facts = replace(FACTS, generation=GenerationFacts(min_p=0.1, temperature=0.6))
    seen = observed(sources={MODEL.id: facts}, engines=(), external={MODEL.id: READY})
    ready = describe(Desired((EXTERNAL,)), seen, PUBLISHED, {}, NOW)[MODEL.id].condition(ConditionType.READY)
    assert ready is not None
    assert ready.status is ConditionStatus.TRUE
    assert ready.message.endswith("its engine cannot obey: min_p.")


def test_a_model_that_serves_says_that_an_older_one_is_the_default() -> None:
    older, model = desired_model("older", 0, default=True), desired_model("tiny", 1, default=True)
    ready = describe(Desired((older, model)), observed(), PUBLISHED, {}, NOW)[MODEL.id].condition(ConditionType.READY)
    assert ready is not None
    assert ready.status is ConditionStatus.TRUE
    assert "local/older, which is older, is the default for kind LLM." in ready.message


def test_conditions_behind_the_first_fault_wait() -> None:
    status = describe(Desired((MODEL,)), observed(engines=()), PUBLISHED, {}, NOW)[MODEL.id]
    workers = status.condition(ConditionType.WORKERS_READY)
    assert workers is not None
    assert (workers.status, workers.reason) == (ConditionStatus.UNKNOWN, Reason.WAITING)
    assert workers.message == "Waits for EngineReady."


@pytest.mark.parametrize("reason", [Reason.TEMPLATE_INVALID, Reason.CONFIG_MAP_NOT_FOUND])
def test_a_model_that_never_had_a_route_says_what_keeps_it_from_one(reason: Reason) -> None:
    seen = observed(sources=fault(reason))
    ready = describe(Desired((MODEL,)), seen, Published(), {}, NOW)[MODEL.id].condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == (ConditionStatus.FALSE, reason, "It is so.")


def test_a_model_without_any_name_left_is_not_ready() -> None:
    other = desired_model("newer", 9, servedNames=["tiny"])
    status = describe(Desired((MODEL, other)), observed(), PUBLISHED, {}, NOW)[other.id]
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert ready.reason is Reason.NAME_CONFLICT
    assert "tiny (held by local/tiny)" in ready.message


def test_a_model_that_serves_says_which_names_another_one_holds_whatever_their_ages() -> None:
    model, younger = desired_model(servedNames=["tiny", "chat"]), desired_model("newer", 9, servedNames=["chat"])
    seen = observed(routes={younger.id: make_route(younger, FACTS, younger.deployment.served_names)})
    ready = describe(Desired((model, younger)), seen, PUBLISHED, {}, NOW)[model.id].condition(ConditionType.READY)
    assert ready is not None
    assert ready.message == "Serves without the names that other models hold: chat (held by local/newer)."


def test_a_template_that_is_not_checked_yet_makes_nobody_invalid() -> None:
    seen = observed(sources=fault(Reason.TEMPLATE_UNCHECKED))
    tokenizer = describe(Desired((MODEL,)), seen, PUBLISHED, {}, NOW)[MODEL.id].condition(ConditionType.TOKENIZER_READY)
    assert tokenizer is not None
    assert (tokenizer.status, tokenizer.reason) == (ConditionStatus.UNKNOWN, Reason.TEMPLATE_UNCHECKED)


ROUTED = {MODEL.id: make_route(MODEL, FACTS, MODEL.deployment.served_names)}
FAILS = Probe(ProbeVerdict.FAILING, Reason.ENGINE_PROBE_FAILED, "It does not answer.")
UNREAD = Desired((), {MODEL.id: Unreadable("spec.timeout: raise it", 4)})


@pytest.mark.parametrize(
    ("engines", "routes", "was_ready", "status", "ready_replicas"),
    [
        pytest.param((engine(MODEL),), ROUTED, True, "True", 1, id="its engine answers"),
        pytest.param((engine(MODEL, probe=FAILS),), ROUTED, True, "False", 0, id="it does not"),
        pytest.param((engine(MODEL, probe=Probe()),), ROUTED, True, "True", 1, id="it was not asked yet"),
        pytest.param((), ROUTED, True, "True", 1, id="it is run by someone else"),
        pytest.param((), ROUTED, False, "False", 0, id="nobody knows that it served"),
        pytest.param((), {}, True, "False", 1, id="it has no route"),
    ],
)
def test_a_spec_that_a_newer_rule_refuses_is_told_and_takes_nothing_out(
    engines: tuple[ObservedEngine, ...], routes: dict[ModelId, Route], was_ready: bool, status: str, ready_replicas: int
) -> None:
    seen = observed(engines=engines, routes=routes)
    before = describe(Desired((MODEL,)), observed(), PUBLISHED, {}, "2026-01-01T00:00:00Z") if was_ready else {}
    told = describe(UNREAD, seen, PUBLISHED, before, "2026-01-01T00:00:00Z")[MODEL.id]
    ready, applied = told.condition(ConditionType.READY), told.condition(ConditionType.APPLIED)
    assert ready is not None
    assert applied is not None
    assert (ready.status, ready.reason, told.ready_replicas) == (status, "SpecInvalid", ready_replicas)
    assert (applied.status, applied.reason, told.observed_generation) == ("False", "SpecInvalid", 4)
    assert ready.message == applied.message == "spec.timeout: raise it. What serves it goes on as it is."
    cured = describe(Desired((MODEL,)), observed(), PUBLISHED, {MODEL.id: told}, "2026-01-02T00:00:00Z")[MODEL.id]
    assert (cured.ready, cured.condition(ConditionType.APPLIED).reason) == (True, "Ready")  # type: ignore[union-attr]
