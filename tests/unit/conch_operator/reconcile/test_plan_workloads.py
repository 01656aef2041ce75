"""Plans for a cluster that replaces engines by itself."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, EngineAddress, ModelId
from conch_contracts.records import Engine
from conch_operator.reconcile.plan import Plan, plan_processes, plan_workloads
from conch_operator.routes.engine_contract import contract_of
from conch_operator.routes.route import make_route
from conch_operator.state import (
    Desired,
    DesiredModel,
    EnginePhase,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    RoutedModel,
    Scaled,
    SourceFacts,
    Unreadable,
)
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

ONE = desired_model(replicas=1)
TWO = desired_model(replicas=2)
TO_REST = replace(desired_model(scaling={"minReplicas": 0, "maxReplicas": 1}), scaled=Scaled(engines=0))
LEAVING = EnginePhase.LEAVING
PENDING = Probe()
FAILING = Probe(ProbeVerdict.FAILING, Reason.ENGINE_PROBE_FAILED, "no such model")


def planned(model: DesiredModel | None, engines: Sequence[ObservedEngine], **observed: object) -> Plan:
    models = (model,) if model else ()
    given: dict[str, object] = {"sources": {m.id: FACTS for m in models}, "engines": tuple(engines)} | observed
    return plan_workloads(Desired(models), Observed(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "engines", "withdraws", "stops", "routed"),
    [
        pytest.param(ONE, [engine(ONE)], [], [], [0], id="at rest"),
        pytest.param(ONE, [engine(ONE, phase=LEAVING)], [], [], [0], id="the last one serves on"),
        pytest.param(ONE, [engine(ONE, phase=LEAVING), engine(ONE, 1, probe=PENDING)], [], [], [0], id="until another"),
        pytest.param(ONE, [engine(ONE, phase=LEAVING), engine(ONE, 1)], [0], [], [1], id="answers"),
        pytest.param(ONE, [engine(ONE, phase=LEAVING, withdrawn=True), engine(ONE, 1)], [0], [0], [1], id="then ends"),
        pytest.param(TWO, [engine(TWO, phase=LEAVING), engine(TWO, 1)], [], [], [0, 1], id="two are wanted"),
        pytest.param(ONE, [engine(ONE, phase=EnginePhase.STOPPING)], [0], [], [], id="what is not held does not serve"),
        pytest.param(None, [engine(ONE, phase=LEAVING)], [0], [], None, id="an unwanted model ends at once"),
        pytest.param(TO_REST, [engine(TO_REST)], [0], [], [], id="what was told to end does not come back"),
    ],
)
def test_an_engine_that_ends_serves_until_another_takes_its_place(
    model: DesiredModel | None,
    engines: list[ObservedEngine],
    withdraws: list[int],
    stops: list[int],
    routed: list[int] | None,
) -> None:
    result = planned(model, engines)
    assert list(result.withdraw) == [engines[index].name for index in withdraws]
    assert list(result.stop) == [engines[index].name for index in stops]
    addresses = [found.grpc for found in result.routes[ONE.id][1]] if routed is not None else None
    assert addresses == (None if routed is None else [engines[index].engine.grpc for index in routed])
    assert (result.start, result.restart) == ((), ())


def routed_before(*engines: ObservedEngine) -> dict[object, RoutedModel]:
    records = tuple(Engine(grpc=found.engine.grpc) for found in engines)
    return {ONE.id: (make_route(ONE, FACTS, ONE.deployment.served_names), records)}


OLD, NEW = Digest("a" * 64), FACTS.digest


@pytest.mark.parametrize(
    ("tokenizers", "probes", "routed", "digest"),
    [
        pytest.param([OLD, NEW], [READY, PENDING], [0], OLD, id="the new one does not answer yet"),
        pytest.param([OLD, None], [READY, PENDING], [0], OLD, id="nor has anybody read its folder"),
        pytest.param([OLD, NEW], [READY, READY], [1], NEW, id="it answers"),
        pytest.param([OLD, OLD, NEW], [READY, READY, READY], [2], NEW, id="no longer those before it"),
        pytest.param([NEW, NEW], [READY, READY], [0, 1], NEW, id="an edit that changes no tokenizer"),
        pytest.param([None, NEW], [READY, READY], [0, 1], NEW, id="one of which nobody knows"),
        pytest.param([OLD], [PENDING], [], NEW, id="nothing answers"),
    ],
)
def test_ids_go_only_to_engines_that_were_started_with_their_tokenizer(
    tokenizers: list[Digest | None], probes: list[Probe], routed: list[int], digest: Digest
) -> None:
    engines = [
        replace(found, tokenizer=tokenizer, engine=replace(found.engine, spec_hash="of the pod"))
        for index, (tokenizer, probe) in enumerate(zip(tokenizers, probes, strict=True))
        for found in [engine(ONE, index, probe=probe)]
    ]
    known = make_route(ONE, replace(FACTS, digest=OLD), ONE.deployment.served_names)
    route, addresses = planned(ONE, engines, routes={ONE.id: known}).routes[ONE.id]
    assert route.tokenizer_digest == digest
    assert [found.grpc for found in addresses] == [engines[index].engine.grpc for index in routed]


def test_an_engine_whose_own_files_did_not_change_takes_a_new_tokenizer_beside_them() -> None:
    known = make_route(ONE, replace(FACTS, digest=OLD), ONE.deployment.served_names)
    route, addresses = planned(ONE, [replace(engine(ONE), tokenizer=OLD)], routes={ONE.id: known}).routes[ONE.id]
    assert (route.tokenizer_digest, len(addresses)) == (NEW, 1)


@pytest.mark.parametrize(
    ("tokenizers", "probes", "routed"),
    [
        pytest.param([OLD, NEW], [READY, READY], [0], id="it has an engine already"),
        pytest.param([OLD, None], [READY, READY], [0, 1], id="one of which nobody knows"),
        pytest.param([OLD, NEW], [PENDING, READY], [], id="the old ones have gone"),
    ],
)
def test_a_tokenizer_that_nobody_can_have_is_not_used(
    tokenizers: list[Digest | None], probes: list[Probe], routed: list[int]
) -> None:
    engines = [replace(engine(ONE, at, probe=probes[at]), tokenizer=tokenizers[at]) for at in range(2)]
    known = make_route(ONE, replace(FACTS, digest=OLD), ONE.deployment.served_names)
    route, records = planned(ONE, engines, routes={ONE.id: known}, unstored={NEW: "no pod has it"}).routes[ONE.id]
    assert route == known
    assert [record.grpc for record in records] == [engines[index].engine.grpc for index in routed]


def test_a_tokenizer_in_use_stays_so_when_the_registry_has_lost_it() -> None:
    known = make_route(ONE, FACTS, ONE.deployment.served_names)
    route, records = planned(ONE, [engine(ONE)], routes={ONE.id: known}, unstored={NEW: "no pod"}).routes[ONE.id]
    assert (route.tokenizer_digest, len(records)) == (NEW, 1)


@pytest.mark.parametrize(
    ("wanted", "serving", "length"),
    [
        pytest.param(8192, [4096], 4096, id="no longer while the old engine serves"),
        pytest.param(8192, [4096, 8192], 4096, id="nor while one of them does"),
        pytest.param(8192, [8192], 8192, id="longer with the new one alone"),
        pytest.param(4096, [8192], 8192, id="no shorter before a new engine serves"),
        pytest.param(4096, [8192, 4096], 4096, id="shorter with it"),
        pytest.param(4096, [], 4096, id="what is wanted where nothing serves"),
        pytest.param(4096, [None], 4096, id="what is wanted where the engine had no length"),
    ],
)
def test_the_context_is_that_of_the_engines_that_serve(wanted: int, serving: list[int | None], length: int) -> None:
    model = desired_model(generation={"maxLength": wanted}, engine={"cpu": {}})
    engines = [
        replace(found, engine=replace(found.engine, contract=replace(found.engine.contract, max_length=started)))
        for index, started in enumerate(serving)
        for found in [engine(model, index)]
    ]
    wide = replace(FACTS, max_position_embeddings=40960)
    route, _ = planned(model, engines, sources={model.id: wide}).routes[model.id]
    assert route.max_model_len == length


def named(name: str) -> DesiredModel:
    block = {"modelType": "Llama", "checkpoint": "1-gpu", "modelName": name}
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    return desired_model(replicas=2, engine={"fastertransformer": block, "image": "triton", "resources": gpu})


@pytest.mark.parametrize(
    ("probes", "routed"),
    [
        pytest.param([READY, READY], {0: "old", 1: "new"}, id="while one name takes the place of the other"),
        pytest.param([READY, PENDING], {0: "old"}, id="before the first engine of the new one answers"),
        pytest.param([PENDING, READY], {1: "new"}, id="once the old ones have gone"),
    ],
)
def test_each_engine_is_asked_for_its_model_by_the_name_that_it_was_started_with(
    probes: list[Probe], routed: dict[int, str]
) -> None:
    engines = [
        replace(found, engine=replace(found.engine, contract=contract_of(named(name))))
        for index, name in enumerate(("old", "new"))
        for found in [engine(ONE, index, probe=probes[index])]
    ]
    _, records = planned(named("new"), engines).routes[ONE.id]
    assert {record.grpc: record.model for record in records} == {
        engines[index].engine.grpc: name for index, name in routed.items()
    }


def of_others(name: str) -> DesiredModel:
    return desired_model(engine={"external": {"grpc": "10.0.0.1:8001", "dialect": "tokens", "modelName": name}})


@pytest.mark.parametrize(
    ("probe", "old", "names"),
    [
        pytest.param(PENDING, READY, ("old", ["old"]), id="not asked yet"),
        pytest.param(READY, READY, ("new", ["new"]), id="it answers"),
        pytest.param(FAILING, READY, ("old", ["old"]), id="it is not there"),
        pytest.param(FAILING, PENDING, ("old", ["old"]), id="it is not there, and the old one was not asked yet"),
        pytest.param(FAILING, FAILING, ("new", []), id="neither is there"),
    ],
)
def test_an_external_engine_serves_until_the_one_that_is_named_instead_answers(
    probe: Probe, old: Probe, names: tuple[str, list[str]]
) -> None:
    before = plan_workloads(Desired((of_others("old"),)), Observed(sources={ONE.id: FACTS}, external={ONE.id: READY}))
    known, held = before.routes[ONE.id]
    given = {"external": {ONE.id: probe}, "routes": {ONE.id: known}, "held_engines": {ONE.id: held}}
    route, records = planned(of_others("new"), [], **given, replaced={ONE.id: old}).routes[ONE.id]
    assert (route.engine_model, [record.model for record in records]) == names


@pytest.mark.parametrize(
    ("wanted", "probe", "names"),
    [
        pytest.param("new", READY, ["old"], id="another engine"),
        pytest.param("new", FAILING, ["old"], id="another engine that is not there"),
        pytest.param("old", READY, ["old"], id="the same engine"),
        pytest.param("old", FAILING, [], id="the same engine, which fails"),
    ],
)
def test_an_external_engine_waits_for_the_tokenizer_that_came_with_it(
    wanted: str, probe: Probe, names: list[str]
) -> None:
    sources = {ONE.id: replace(FACTS, digest=OLD)}
    before = plan_workloads(Desired((of_others("old"),)), Observed(sources=sources, external={ONE.id: READY}))
    known, held = before.routes[ONE.id]
    given = {"external": {ONE.id: probe}, "routes": {ONE.id: known}, "held_engines": {ONE.id: held}}
    route, records = planned(of_others(wanted), [], **given, unstored={NEW: "it is too large"}).routes[ONE.id]
    assert (route, [record.model for record in records]) == (known, names)


@pytest.mark.parametrize("plan", [plan_workloads, plan_processes])
def test_what_served_before_serves_until_it_was_asked(plan: object) -> None:
    pending, unknown = engine(ONE, 0, probe=PENDING), engine(ONE, 1, probe=PENDING)
    observed = Observed(sources={ONE.id: FACTS}, engines=(pending, unknown), routed=routed_before(pending))  # type: ignore[arg-type]
    result = plan(Desired((ONE,)), observed)  # type: ignore[operator]
    assert [found.grpc for found in result.routes[ONE.id][1]] == [pending.engine.grpc]


@pytest.mark.parametrize("sources", [{ONE.id: FACTS}, {}], ids=["read", "not read yet"])
@pytest.mark.parametrize(("replicas", "wanted"), [(0, False), (1, True)])
def test_a_route_tells_whether_engines_are_to_come(
    replicas: int, wanted: bool, sources: dict[ModelId, SourceFacts]
) -> None:
    model = desired_model(replicas=replicas)
    known = make_route(model, FACTS, model.deployment.spec.served_names or ()).model_copy(
        update={"engines_wanted": not wanted}
    )
    result = planned(model, [], sources=sources, routes={model.id: known})
    assert result.routes[model.id][0].engines_wanted is wanted


def test_a_model_whose_folder_was_not_read_yet_keeps_its_route() -> None:
    before = routed_before(engine(ONE))
    result = planned(ONE, [engine(ONE)], sources={}, routed=before)
    assert result.routes[ONE.id][0] == before[ONE.id][0]
    unknown = planned(ONE, [engine(ONE)], sources={})
    assert unknown.routes == {}
    assert [one.grpc for one in unknown.unknown[ONE.id]] == [engine(ONE).engine.grpc], "gateways may know the route"
    assert result.unknown == {}
    assert planned(ONE, [engine(ONE, probe=PENDING)], sources={}).unknown == {ONE.id: ()}


def test_models_are_served_by_their_own_engines_or_by_those_of_others() -> None:
    other = desired_model("other", engine={"external": {"grpc": "h:1", "dialect": "tokens"}})
    result = plan_workloads(Desired((ONE, other)), Observed())
    assert [model.id for model in result.serve] == [ONE.id]
    assert [model.id for model in result.external] == [other.id]


@pytest.mark.parametrize(
    ("engines", "held", "routed"),
    [
        pytest.param([engine(ONE)], [], ["engine"], id="its engine that answers"),
        pytest.param([engine(ONE, probe=PENDING)], ["engine"], ["engine"], id="one that was in use and is not asked"),
        pytest.param([engine(ONE, probe=PENDING)], [], [], id="not one that never answered"),
        pytest.param([], ["external"], ["external"], id="an engine of somebody else's"),
    ],
)
def test_what_serves_a_model_that_cannot_be_read_goes_on(
    engines: list[ObservedEngine], held: list[str], routed: list[str]
) -> None:
    addresses = {"engine": engine(ONE).engine.grpc, "external": EngineAddress("triton:8001")}
    route = make_route(ONE, FACTS, ONE.deployment.served_names)
    observed = Observed(
        engines=tuple(engines),
        routes={ONE.id: route},
        held_engines={ONE.id: tuple(Engine(grpc=addresses[name]) for name in held)},
    )
    planned = plan_workloads(Desired((), {ONE.id: Unreadable("spec.path: remove it", 2)}), observed)
    assert planned.routes[ONE.id][0] == route
    assert [found.grpc for found in planned.routes[ONE.id][1]] == [addresses[name] for name in routed]
    assert (planned.stop, planned.withdraw, planned.restart, planned.models) == ((), (), (), ())
    assert plan_workloads(Desired((), {ONE.id: Unreadable("spec.path: remove it", 2)}), Observed()).unknown == {
        ONE.id: ()
    }


def test_a_model_that_cannot_be_read_keeps_its_names() -> None:
    route = make_route(ONE, FACTS, ONE.deployment.served_names)
    other = desired_model("other", servedNames=list(ONE.deployment.served_names))
    observed = Observed(routes={ONE.id: route}, sources={other.id: FACTS})
    assert plan_workloads(
        Desired((other,), {ONE.id: Unreadable("spec.path: remove it", 2)}), observed
    ).routes.keys() == {ONE.id}
