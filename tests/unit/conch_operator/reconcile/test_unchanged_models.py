"""What a round says of a model that it has described before: the same again, and anew as soon as anything is new."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.names import EngineAddress, ModelId, ServedName
from conch_contracts.records import Engine, Pool
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import ModelStatus, Statuses, describe
from conch_operator.reconcile.unchanged_models import UnchangedModels
from conch_operator.routes.route import make_route
from conch_operator.state import Desired, DesiredModel, EnginePhase, Fault, Observed, Probe, ProbeVerdict, SourceFault
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

MODEL = replace(desired_model(), generation=1)
ELSEWHERE = replace(desired_model(engine={"external": {"grpc": "10.0.0.1:8001", "dialect": "tokens"}}), generation=1)
FAULT = Fault(Reason.REJECTED, "A policy says no.")
FAILING = Probe(ProbeVerdict.FAILING, Reason.ENGINE_UNREACHABLE, "Nothing answers")
EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
JUST_IN_TIME, DEADLINE = "2026-01-01T00:09:59Z", "2026-01-01T00:10:00Z"
DOWNLOADS = Fault(Reason.DOWNLOADING, "3 of 10 GiB have come.")


def seen(model: DesiredModel) -> Observed:
    ours = model is not ELSEWHERE
    return Observed(
        sources={model.id: FACTS},
        engines=(engine(model),) if ours else (),
        external={} if ours else {model.id: READY},
        workers={Pool.TOKENIZER: 1, Pool.LLM: 1},
        routes={model.id: make_route(model, FACTS, model.deployment.served_names)},
        specs={model.id: engine(model).engine.spec_hash} if ours else {},
    )


def published(model: DesiredModel) -> Published:
    return Published(frozenset({model.id}))


class Rounds:
    """Rounds about one model, with and without what the last ones have seen."""

    def __init__(self, model: DesiredModel) -> None:
        self.model, self.unchanged = model, UnchangedModels()
        self.before = self.told(model, seen(model), published(model), EARLIER)
        assert self.before.settled

    def told(self, model: DesiredModel, observed: Observed, said: Published, now: str = NOW) -> ModelStatus:
        known = {self.model.id: self.before} if hasattr(self, "before") else {}
        return describe(Desired((model,)), observed, said, known, now, self.unchanged)[model.id]

    def anew(self, model: DesiredModel, observed: Observed, said: Published) -> ModelStatus:
        return describe(Desired((model,)), observed, said, {self.model.id: self.before}, NOW)[model.id]


@pytest.mark.parametrize("model", [MODEL, ELSEWHERE], ids=["ours", "elsewhere"])
def test_of_the_same_the_same_is_said_without_looking(model: DesiredModel) -> None:
    rounds = Rounds(model)
    assert rounds.told(model, seen(model), published(model)) is rounds.before
    assert rounds.anew(model, seen(model), published(model)) == rounds.before, "looking comes to the same"


def _with(**changes: Any) -> Callable[[Observed], Observed]:
    return lambda observed: replace(observed, **changes)


ONE = MODEL.id
OTHER_ENGINE = Engine(grpc=EngineAddress("10.0.0.9:8001"), named_in="local")
CHANGES: dict[str, tuple[DesiredModel, Callable[[Observed], Observed]]] = {
    "sources": (MODEL, _with(sources={ONE: SourceFault(Reason.FOLDER_MISSING, "The folder is gone.")})),
    "engines": (MODEL, _with(engines=(engine(MODEL, probe=FAILING),))),
    "external": (ELSEWHERE, _with(external={ONE: FAILING})),
    "replaced": (ELSEWHERE, _with(external={ONE: FAILING}, replaced={ONE: READY})),
    "workers": (MODEL, _with(workers={Pool.TOKENIZER: 1})),
    "routes": (
        MODEL,
        lambda observed: replace(
            observed,
            unstored={FACTS.digest: "it is too large"},
            routes={ONE: observed.routes[ONE].model_copy(update={"tokenizer_digest": "e" * 64})},
        ),
    ),
    "held_engines": (ELSEWHERE, _with(external={ONE: Probe()}, held_engines={ONE: (OTHER_ENGINE,)})),
    "routed": (MODEL, lambda observed: replace(observed, sources={}, routed={ONE: (observed.routes[ONE], ())})),
    "unstored": (MODEL, _with(unstored={FACTS.digest: "it is too large"}, routes={})),
    "reserved": (MODEL, _with(reserved={ServedName("tiny"): ModelId("local/gone")}, routes={})),
    "rejected": (MODEL, _with(rejected={ONE: FAULT})),
    "unapplied": (MODEL, _with(unapplied=frozenset({ONE}))),
    "specs": (MODEL, _with(specs={ONE: "another"})),
}
OF_NO_STATUS = {"gateways", "registry_answered", "revision", "_by_model"}


def test_every_part_of_what_is_observed_is_looked_at_here() -> None:
    assert CHANGES.keys() | OF_NO_STATUS == {field.name for field in fields(Observed)}


@pytest.mark.parametrize("what", CHANGES.keys())
def test_whatever_changes_is_told_as_if_nothing_had_been_seen_before(what: str) -> None:
    model, change = CHANGES[what]
    rounds, observed = Rounds(model), change(seen(model))
    expected = rounds.anew(model, observed, published(model))
    assert rounds.told(model, observed, published(model)) == expected
    if what not in ("unapplied", "routed"):  # then the last word stands
        assert expected != rounds.before


@pytest.mark.parametrize("what", CHANGES.keys())
def test_whatever_changes_of_one_that_waits_is_told_as_if_nothing_had_been_seen_before(what: str) -> None:
    model, change = CHANGES[what]
    waiting = _with(engines=(engine(MODEL, probe=Probe()),)) if model is MODEL else _with(external={ONE: Probe()})
    unchanged, observed = UnchangedModels(), waiting(seen(model))

    def told(observed: Observed, before: Statuses, now: str, known: UnchangedModels | None) -> Statuses:
        return describe(Desired((model,)), observed, published(model), before, now, known)

    before = told(observed, {}, EARLIER, unchanged)
    assert not before[ONE].settled
    changed = change(observed)
    assert told(changed, before, JUST_IN_TIME, unchanged) == told(changed, before, JUST_IN_TIME, None)


@pytest.mark.parametrize("said", [Published(), Published(error="Redis is away")], ids=["no route", "no registry"])
def test_what_became_of_the_routes_is_told(said: Published) -> None:
    rounds = Rounds(MODEL)
    assert not rounds.told(MODEL, seen(MODEL), said).ready


@pytest.mark.parametrize(
    "model",
    [
        replace(MODEL, generation=2),
        replace(desired_model(servedNames=["other"]), generation=1),
        replace(desired_model(replicas=2), generation=1),
    ],
    ids=["generation", "names", "replicas"],
)
def test_an_edit_is_told(model: DesiredModel) -> None:
    rounds = Rounds(MODEL)
    told = rounds.told(model, seen(MODEL), published(MODEL))
    assert told == rounds.anew(model, seen(MODEL), published(MODEL)) != rounds.before


@pytest.mark.parametrize("fault", [None, DOWNLOADS], ids=["starts", "downloads"])
def test_of_a_model_that_does_not_get_on_the_same_is_said_until_its_time_has_run_out(fault: Fault | None) -> None:
    unchanged = UnchangedModels()
    waiting = engine(MODEL, phase=EnginePhase.STARTING, probe=Probe())
    waiting = replace(waiting, engine=replace(waiting.engine, fault=fault))
    observed = replace(seen(MODEL), engines=(waiting,))

    def told(before: Statuses, now: str) -> Statuses:
        said = describe(Desired((MODEL,)), observed, published(MODEL), before, now, unchanged)
        assert said == describe(Desired((MODEL,)), observed, published(MODEL), before, now), "looking comes to the same"
        return said

    first = told({}, EARLIER)
    assert not first[ONE].settled
    assert told(first, JUST_IN_TIME)[ONE] is first[ONE]
    stalled = told(first, DEADLINE)
    assert stalled[ONE].holds(ConditionType.STALLED)
    assert told(stalled, NOW)[ONE] is stalled[ONE]


def test_a_status_that_is_not_the_last_one_said_is_looked_at_again() -> None:
    rounds = Rounds(MODEL)
    rounds.before = rounds.before.model_copy(update={"replicas": 9})
    assert rounds.told(MODEL, seen(MODEL), published(MODEL)).replicas == 1


def test_models_that_have_gone_are_forgotten() -> None:
    rounds = Rounds(MODEL)
    describe(Desired(), seen(MODEL), Published(), {}, NOW, rounds.unchanged)
    assert rounds.told(MODEL, seen(MODEL), published(MODEL)) == rounds.before
    assert rounds.told(MODEL, seen(MODEL), published(MODEL)) is not rounds.before
