from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.reconcile.engine_steps import engine_recipe
from conch_operator.reconcile.plan import Plan, Planner, plan_processes, plan_workloads
from conch_operator.state import (
    Desired,
    DesiredModel,
    EnginePhase,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    Scaled,
    SourceFault,
)
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

PENDING = Probe()
DEAD = Probe(ProbeVerdict.DEAD, Reason.ENGINE_PROBE_FAILED, "silent")
UNLOADED = Probe(ProbeVerdict.DEAD, Reason.ENGINE_LOAD_FAILED, "no such layer")
ONE = desired_model(replicas=1)
TWO = desired_model(replicas=2)
NONE = desired_model(replicas=0)
OLD = desired_model(engine={"cpu": {"maxBatchSize": 3}})


def planned(model: DesiredModel | None, engines: Sequence[ObservedEngine]) -> Plan:
    models = (model,) if model else ()
    return plan_processes(Desired(models), Observed(sources={m.id: FACTS for m in models}, engines=tuple(engines)))


@pytest.mark.parametrize(
    ("model", "engines", "starts", "withdraws", "stops"),
    [
        pytest.param(ONE, [], 1, [], [], id="nothing runs"),
        pytest.param(TWO, [], 2, [], [], id="all missing ones start at once"),
        pytest.param(ONE, [engine(ONE)], 0, [], [], id="nothing to do"),
        pytest.param(ONE, [engine(ONE, probe=PENDING)], 0, [], [], id="one is starting"),
        pytest.param(ONE, [engine(ONE, phase=EnginePhase.EXITED)], 0, [], [], id="the cluster restarts a crashed one"),
        pytest.param(ONE, [engine(ONE, phase=EnginePhase.STOPPING)], 1, [], [], id="one that stops does not count"),
        pytest.param(TWO, [engine(TWO)], 1, [], [], id="scale up"),
        pytest.param(ONE, [engine(ONE, 0), engine(ONE, 1)], 0, [1], [], id="scale down withdraws first"),
        pytest.param(ONE, [engine(ONE, 0), engine(ONE, 1, withdrawn=True)], 0, [], [1], id="then stops"),
        pytest.param(ONE, [engine(ONE, 0, probe=PENDING), engine(ONE, 1)], 0, [], [0], id="the ready one stays"),
        pytest.param(NONE, [engine(NONE)], 0, [0], [], id="scale to zero"),
        pytest.param(None, [engine(ONE)], 0, [0], [], id="an unwanted model is withdrawn"),
        pytest.param(None, [engine(ONE, withdrawn=True)], 0, [], [0], id="and its engine stopped"),
        pytest.param(None, [engine(ONE, phase=EnginePhase.STOPPING)], 0, [], [], id="only once"),
        pytest.param(ONE, [engine(ONE, probe=DEAD)], 0, [], [], id="a dead engine is only restarted"),
        pytest.param(ONE, [engine(OLD)], 1, [], [], id="an edit starts the new one beside the old"),
        pytest.param(ONE, [engine(OLD), engine(ONE, probe=PENDING)], 0, [], [], id="the old one serves meanwhile"),
        pytest.param(ONE, [engine(OLD), engine(ONE)], 0, [0], [], id="the new one is ready: withdraw the old"),
        pytest.param(ONE, [engine(OLD, withdrawn=True), engine(ONE)], 0, [], [0], id="and stop it"),
        pytest.param(ONE, [engine(OLD, probe=PENDING)], 1, [], [0], id="an old one that never answered just goes"),
        pytest.param(TWO, [engine(OLD, 0), engine(OLD, 1)], 1, [], [], id="one more than wanted at a time"),
        pytest.param(TWO, [engine(OLD, 0), engine(OLD, 1), engine(TWO)], 0, [1], [], id="one by one"),
    ],
)
def test_the_next_step_is_safe(
    model: DesiredModel | None, engines: list[ObservedEngine], starts: int, withdraws: list[int], stops: list[int]
) -> None:
    result = planned(model, engines)
    assert len(result.start) == starts
    assert list(result.withdraw) == [engines[index].name for index in withdraws]
    assert list(result.stop) == [engines[index].name for index in stops]
    assert not {component.name for component in result.start} & {e.name for e in engines}


def test_a_dead_engine_that_is_to_go_is_not_started_again() -> None:
    result = planned(ONE, [engine(ONE, 0, probe=DEAD), engine(ONE, 1, probe=DEAD)])
    assert (len(result.restart), len(result.stop)) == (1, 1)
    assert set(result.restart).isdisjoint(result.stop)


@pytest.mark.parametrize(
    ("phase", "restarted"), [(EnginePhase.RUNNING, True), (EnginePhase.EXITED, False), (EnginePhase.STOPPING, False)]
)
def test_a_dead_engine_is_restarted_once(phase: EnginePhase, restarted: bool) -> None:
    dead = engine(ONE, phase=phase, probe=DEAD)
    result = planned(ONE, [dead])
    assert result.restart == ((dead.name,) if restarted else ())
    assert result.routes[ONE.id][1] == ()


@pytest.mark.parametrize("plan", [plan_processes, plan_workloads])
@pytest.mark.parametrize(
    ("probe", "other"), [(UNLOADED, PENDING), (UNLOADED, UNLOADED), (UNLOADED, READY), (DEAD, READY)]
)
def test_an_engine_that_cannot_do_its_work_is_started_again_whether_others_serve_or_not(
    plan: Planner, probe: Probe, other: Probe
) -> None:
    engines = (engine(TWO, 0, probe=probe), engine(TWO, 1, probe=other))
    steps = plan(Desired((TWO,)), Observed(sources={TWO.id: FACTS}, engines=engines))
    assert engines[0].name in steps.restart


def test_a_route_lists_only_engines_that_answer_and_stay() -> None:
    engines = [engine(ONE, 0), engine(ONE, 1), engine(ONE, 2, probe=PENDING)]
    _, routed = planned(desired_model(replicas=1), engines).routes[ONE.id]
    assert [record.grpc for record in routed] == ["127.0.0.1:9000"]


def test_a_route_keeps_an_engine_that_answers_before_the_cluster_tells_that_it_runs() -> None:
    _, routed = planned(ONE, [engine(ONE, phase=EnginePhase.INITIALIZED)]).routes[ONE.id]
    assert len(routed) == 1


def test_a_route_tells_which_engines_were_made_from_what_was_before() -> None:
    old, new = engine(OLD, 0), engine(ONE, 1)
    observed = Observed(sources={ONE.id: FACTS}, engines=(old, new))
    route, routed = plan_processes(Desired((desired_model(replicas=2),)), observed).routes[ONE.id]
    assert {record.grpc: record.outdated for record in routed} == {old.engine.grpc: True, new.engine.grpc: False}
    gone = replace(observed, sources={ONE.id: GONE}, routes={ONE.id: route}, held_engines={ONE.id: routed})
    _, kept = plan_processes(Desired((desired_model(replicas=2),)), gone).routes[ONE.id]
    assert kept == routed, "while nothing more is known of it"


@pytest.mark.parametrize("told", ["pods-2", None])
def test_a_cluster_tells_which_pods_were_made_from_what_was_before(told: str | None) -> None:
    pods = [engine(TWO, index) for index in range(2)]
    old, new = (
        replace(pod, engine=replace(pod.engine, spec_hash=f"pods-{number}"), tokenizer=FACTS.digest)
        for number, pod in enumerate(pods, 1)
    )
    specs = {} if told is None else {TWO.id: told}
    observed = Observed(sources={TWO.id: FACTS}, engines=(old, new), specs=specs)
    _, routed = plan_workloads(Desired((TWO,)), observed).routes[TWO.id]
    assert [record.outdated for record in routed] == [told is not None, False]


def test_a_model_without_ready_engine_keeps_its_route() -> None:
    _, routed = planned(ONE, [engine(ONE, probe=PENDING)]).routes[ONE.id]
    assert routed == ()


def test_engines_go_on_while_the_folder_cannot_be_read() -> None:
    fault = SourceFault(Reason.FOLDER_MISSING, "gone")
    known = planned(ONE, []).routes[ONE.id][0]
    renamed = desired_model(replicas=1, servedNames=["other"])
    observed = Observed(sources={ONE.id: fault}, engines=(engine(ONE),), routes={ONE.id: known})
    result = plan_processes(Desired((renamed,)), observed)
    assert (result.start, result.stop, result.withdraw) == ((), (), ())
    route, engines = result.routes[ONE.id]
    assert route == known.model_copy(update={"served_names": ("other",)})
    assert len(engines) == 1


FOLDER = FACTS.folder
GONE = SourceFault(Reason.FOLDER_MISSING, "gone", is_of_now=True, folder=FOLDER)
UNREACHABLE = Probe(ProbeVerdict.FAILING, Reason.ENGINE_UNREACHABLE, "Nothing answers.")
WRONG = Probe(ProbeVerdict.FAILING, Reason.ENGINE_PROBE_FAILED, "boom")


@pytest.mark.parametrize(
    ("fault", "probe", "stopped"),
    [
        pytest.param(GONE, UNLOADED, True, id="it could not load"),
        pytest.param(GONE, PENDING, True, id="it starts"),
        pytest.param(GONE, UNREACHABLE, True, id="it starts again"),
        pytest.param(GONE, READY, False, id="it serves"),
        pytest.param(GONE, WRONG, False, id="it has loaded"),
        pytest.param(SourceFault(Reason.FOLDER_MISSING, "gone"), UNLOADED, False, id="its agent said so, once"),
        pytest.param(replace(GONE, reason=Reason.TEMPLATE_INVALID), PENDING, False, id="its files are whole"),
        pytest.param(replace(GONE, folder=FOLDER / "typo"), PENDING, False, id="it was made from another folder"),
    ],
)
def test_a_server_that_has_not_loaded_goes_while_the_folder_cannot_be_served(
    fault: SourceFault, probe: Probe, stopped: bool
) -> None:
    one = engine(ONE, probe=probe)
    one = replace(one, engine=replace(one.engine, folder=FOLDER))
    steps = plan_processes(Desired((ONE,)), Observed(sources={ONE.id: fault}, engines=(one,)))
    assert steps.stop == ((one.name,) if stopped else ())


@pytest.mark.parametrize("pool", [{}, {"kind": "Embedding", "placement": {"pool": "encoders"}}], ids=["own", "pooled"])
def test_an_engine_that_nobody_wants_goes_though_the_folder_cannot_be_served(pool: dict[str, Any]) -> None:
    model = replace(desired_model(**pool), scaled=Scaled(engines=0, draining=bool(pool)))
    one = engine(model, probe=UNLOADED)
    steps = plan_processes(Desired((model,)), Observed(sources={model.id: GONE}, engines=(one,)))
    assert steps.stop == (one.name,)


def test_a_model_that_its_pool_could_not_load_is_left_to_the_pool() -> None:
    model = desired_model(kind="Embedding", placement={"pool": "encoders"})
    one = engine(model, probe=UNLOADED)
    steps = plan_processes(Desired((model,)), Observed(sources={model.id: GONE}, engines=(one,)))
    assert steps.stop == ()


def test_an_external_encoder_with_http_alone_is_routed_there() -> None:
    model = desired_model(kind="Embedding", engine={"external": {"http": "10.0.0.1:8000"}})
    observed = Observed(sources={model.id: FACTS}, external={model.id: READY})
    _, engines = plan_processes(Desired((model,)), observed).routes[model.id]
    assert [record.grpc for record in engines] == ["http://10.0.0.1:8000"]


@pytest.mark.parametrize(("probe", "routed"), [(PENDING, 0), (READY, 1)])
def test_an_external_engine_is_routed_when_it_answers(probe: Probe, routed: int) -> None:
    external = {"grpc": "10.0.0.1:8001", "dialect": "fastertransformer", "modelName": "ft"}
    model = desired_model(engine={"external": external})
    observed = Observed(sources={model.id: FACTS}, external={model.id: probe})
    result = plan_processes(Desired((model,)), observed)
    route, engines = result.routes[model.id]
    assert result.start == ()
    assert route.engine_model == "ft"
    assert [record.grpc for record in engines] == ["10.0.0.1:8001"][:routed]


def test_a_change_of_routing_restarts_nothing() -> None:
    changed = desired_model(routing={"timeout": "5m"}, servedNames=["other"], generation={"temperature": "0.5"})
    result = planned(changed, [engine(ONE)])
    assert (result.start, result.stop, result.withdraw) == ((), (), ())
    assert result.routes[ONE.id][0].served_names == ("other",)


def test_every_step_says_why() -> None:
    assert planned(ONE, []).why[0].endswith("an engine of this spec is missing")
    assert planned(None, [engine(ONE)]).why[0].endswith("its model is no longer wanted")


@pytest.mark.parametrize(
    ("kind", "sees"), [("LLM", True), ("LLM", False), ("Embedding", True), ("Embedding", False), ("Rerank", True)]
)
def test_the_engine_of_a_language_model_that_sees_takes_pictures(kind: str, sees: bool) -> None:
    recipe = engine_recipe(desired_model(kind=kind), replace(FACTS, sees=sees))
    assert recipe is not None
    assert recipe.sees is (sees and kind != "Rerank")


@pytest.mark.parametrize(("kind", "sees"), [("LLM", False), ("Embedding", True), ("Rerank", False)])
def test_the_engine_of_a_model_of_texts_and_pictures_takes_pictures(kind: str, sees: bool) -> None:
    recipe = engine_recipe(desired_model(kind=kind), replace(FACTS, encoder=replace(FACTS.encoder, sees=True)))
    assert recipe is not None
    assert recipe.sees is sees
