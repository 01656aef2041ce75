from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest
from conch_contracts.records import Engine
from conch_operator.reconcile.first_answers import awaited_engines, first_answers
from conch_operator.reconcile.plan import Plan
from conch_operator.routes.route import make_route, own_engine
from conch_operator.state import EnginePhase, Observed, ObservedEngine, Probe, ProbeVerdict
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

MODEL = desired_model()
ROUTE = make_route(MODEL, FACTS, MODEL.deployment.served_names)
SILENT = Probe()
STARTING = engine(MODEL, probe=SILENT)
SPEC = STARTING.engine.spec_hash
FAILING = Probe(ProbeVerdict.FAILING, Reason.ENGINE_PROBE_FAILED, "no such model")
OTHER = Engine(grpc=engine(MODEL, 5).engine.grpc)


def found(
    *engines: ObservedEngine,
    routed: tuple[Engine, ...] = (),
    specs: Any = None,
    said: Probe = READY,
    tokenizer: Digest | None = FACTS.digest,
    **steps: Any,
) -> list[Engine]:
    plan = Plan(routes={MODEL.id: (ROUTE, routed)}, **steps)
    wanted = {MODEL.id: SPEC} if specs is None else specs
    awaited = awaited_engines(plan, Observed(engines=engines))
    answers = first_answers(plan, wanted, awaited, lambda _: said, lambda _: tokenizer)
    assert answers == first_answers(plan, wanted, [one.engine for one in engines], lambda _: said, lambda _: tokenizer)
    assert all(route is ROUTE for route, _ in answers.values())
    return [engine for _, engines in answers.values() for engine in engines]


def test_engines_that_answer_are_found() -> None:
    second = engine(MODEL, 1, probe=FAILING)
    assert found(STARTING, second) == [own_engine(STARTING.engine), own_engine(second.engine)]


def test_one_that_answers_before_the_cluster_tells_that_it_runs_is_found() -> None:
    early = engine(MODEL, phase=EnginePhase.INITIALIZED, probe=SILENT)
    assert found(early) == [own_engine(early.engine)]


@pytest.mark.parametrize(
    ("engines", "given"),
    [
        pytest.param((STARTING,), {"said": FAILING}, id="it does not answer"),
        pytest.param((STARTING,), {"said": SILENT}, id="it was not asked"),
        pytest.param((STARTING,), {"routed": (OTHER,)}, id="another one serves"),
        pytest.param((STARTING,), {"withdraw": (STARTING.name,)}, id="it leaves its route"),
        pytest.param((STARTING,), {"stop": (STARTING.name,)}, id="it ends"),
        pytest.param((STARTING,), {"restart": (STARTING.name,)}, id="it starts again"),
        pytest.param((STARTING,), {"specs": {MODEL.id: "another"}}, id="it is of another spec"),
        pytest.param((STARTING,), {"specs": {}}, id="nobody knows of which spec it should be"),
        pytest.param((STARTING,), {"tokenizer": Digest("e" * 64)}, id="it has another tokenizer"),
        pytest.param((STARTING,), {"tokenizer": None}, id="nobody knows its tokenizer"),
        pytest.param((engine(MODEL, phase=EnginePhase.LEAVING, probe=SILENT),), {}, id="somebody ends it"),
        pytest.param((engine(MODEL, phase=EnginePhase.STARTING, probe=SILENT),), {}, id="it has not started"),
        pytest.param((engine(desired_model("other"), probe=SILENT),), {}, id="its model has no route"),
    ],
)
def test_about_all_others_the_next_round_decides(engines: tuple[ObservedEngine, ...], given: dict[str, Any]) -> None:
    assert found(*engines, **given) == []
