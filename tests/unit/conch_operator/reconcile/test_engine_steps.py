"""Plans for models in pools, on a cluster that makes all other engines by itself."""

from dataclasses import replace

import pytest

from conch_contracts.names import EngineAddress, ModelId, PoolId
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.reconcile.engine_steps import engine_name
from conch_operator.reconcile.plan import Plan, plan_workloads
from conch_operator.state import Desired, DesiredModel, EngineName, EnginePhase, Observed, ObservedEngine, Scaled
from testkit.builders.model_deployments import FACTS, desired_model, engine

POOL = PoolId("local/small")
POOLS = {POOL: EnginePoolSpec.model_validate({"memory": "1Gi"})}
ALONE = desired_model(kind="Embedding")
PLACED = replace(desired_model(kind="Embedding", placement={"pool": "small"}), scaled=Scaled(1))
OUT = replace(PLACED, scaled=Scaled(0))
LEAVING = replace(PLACED, scaled=Scaled(1, draining=True))


def planned(*models: DesiredModel, engines: tuple[ObservedEngine, ...] = (), pools: object = POOLS) -> Plan:
    observed = Observed(sources={model.id: FACTS for model in models}, engines=engines)
    return plan_workloads(Desired(models, pools=pools), observed)  # type: ignore[arg-type]


def pooled(*, name: str = "", address: str = "", **changes: object) -> ObservedEngine:
    found = engine(PLACED, **changes)  # type: ignore[arg-type]
    made = replace(found.engine, pool=POOL)
    if name:
        made = replace(made, name=EngineName(name), grpc=EngineAddress(address))
    return replace(found, engine=made)


def test_a_model_in_a_pool_gets_no_workload_but_is_loaded() -> None:
    plan = planned(PLACED, replace(ALONE, deployment=ALONE.deployment))
    assert [model.id for model in planned(ALONE).serve] == [ALONE.id]
    assert planned(PLACED).serve == ()
    assert [component.recipe.pool for component in planned(PLACED).start] == [POOL]
    assert plan.pools == POOLS
    assert planned(PLACED, engines=(pooled(),)).start == ()
    assert planned(OUT).start == ()


def test_a_model_whose_pool_is_not_there_gets_nothing() -> None:
    plan = planned(PLACED, pools={})
    assert (plan.start, plan.serve, plan.stop) == ((), (), ())


def test_a_model_leaves_its_route_before_it_is_unloaded() -> None:
    there = pooled()
    drained = planned(LEAVING, engines=(there,))
    assert (drained.withdraw, drained.stop) == ((there.name,), ())
    assert drained.routes[PLACED.id][1] == ()
    gone = planned(OUT, engines=(replace(there, withdrawn=True),))
    assert gone.stop == (there.name,)


def test_what_a_pod_that_ends_has_serves_until_the_next_pod_has_it() -> None:
    old = pooled(name="tiny@old", address="10.0.0.1:8001", phase=EnginePhase.LEAVING)
    alone = planned(PLACED, engines=(old,))
    assert [component.model for component in alone.start] == [PLACED.id]
    assert [found.grpc for found in alone.routes[PLACED.id][1]] == ["10.0.0.1:8001"]
    both = planned(PLACED, engines=(old, pooled()))
    assert (both.start, both.withdraw, both.stop) == ((), ("tiny@old",), ())
    assert [found.grpc for found in both.routes[PLACED.id][1]] == [pooled().engine.grpc]
    last = planned(PLACED, engines=(replace(old, withdrawn=True), pooled()))
    assert last.stop == ("tiny@old",)


@pytest.mark.parametrize(
    ("models", "own", "withdraws"),
    [
        pytest.param((), False, True, id="deleted"),
        pytest.param((ALONE,), False, False, id="it serves until one of its own answers"),
        pytest.param((ALONE,), True, True, id="then it goes"),
    ],
)
def test_a_model_that_has_left_its_pool_is_unloaded(
    models: tuple[DesiredModel, ...], own: bool, withdraws: bool
) -> None:
    there = pooled(name="pooled", address="10.0.0.1:8001")
    plan = planned(*models, engines=(there, engine(ALONE)) if own else (there,))
    assert plan.withdraw == (("pooled",) if withdraws else ())


def test_what_cannot_be_read_goes_on_in_its_pool() -> None:
    unreadable = {ModelId("local/tiny"): object()}
    observed = Observed(engines=(pooled(),))
    plan = plan_workloads(Desired((), unreadable, pools=POOLS), observed)  # type: ignore[arg-type]
    assert (plan.withdraw, plan.stop) == ((), ())


def test_engines_of_models_of_one_name_are_told_apart_in_all_namespaces_and_pools() -> None:
    def named(namespace: str, name: str, **spec: object) -> EngineName:
        model = desired_model(name, kind="Embedding", **spec)
        metadata = model.deployment.metadata.model_copy(update={"namespace": namespace})
        return engine_name(
            replace(model, deployment=model.deployment.model_copy(update={"metadata": metadata})), "h", 0
        )

    small, large = ({"placement": {"pool": pool}} for pool in ("small", "large"))
    assert [
        named("local", "tiny"),
        named("a", "tiny"),
        named("a-b", "c"),
        named("a", "b-c"),
        named("local", "tiny", **small),
        named("local", "tiny", **large),
        named("a", "tiny", **small),
    ] == [
        "tiny-h-0",
        "a.tiny-h-0",
        "a-b.c-h-0",
        "a.b-c-h-0",
        "local/small/tiny-h-0",
        "local/large/tiny-h-0",
        "a/small/tiny-h-0",
    ]
