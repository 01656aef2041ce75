"""An operator that takes over believes what the one before it has said of the models of pools."""

from dataclasses import replace

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason
from conch_operator.reconcile.status import ModelStatus
from conch_operator.state import Desired, DesiredModel, Observed
from testkit.builders.model_deployments import model_deployment
from testkit.pool_scene import POOL, Scene, pool_of


async def test_requests_wait_on_while_no_pod_is_there_that_could_read_the_folder(scene: Scene) -> None:
    scene.add("a")
    model = replace(scene.models["a"], generation=3)
    assert await wakes(scene, model, said_ready(model, generation=3))
    await scene.residents.apply(Desired(pools={POOL: pool_of()}), Observed(), {})
    assert not await wakes(scene, model, said_ready(model, generation=2))


async def test_what_was_said_is_not_about_an_edit_since(scene: Scene) -> None:
    scene.add("a")
    model = replace(scene.models["a"], generation=3)
    assert await wakes(scene, model, said_ready(model, generation=3))
    edited = replace(model, deployment=model_deployment("a", kind="Rerank", placement={"pool": "small"}), generation=4)
    assert not await wakes(scene, edited, said_ready(model, generation=3))


async def wakes(scene: Scene, model: DesiredModel, before: ModelStatus) -> bool:
    """Return whether requests count on an engine that starts for them, though nobody has read the folder."""
    wanted = Desired((model,), pools={POOL: pool_of()})
    (decided,) = (await scene.residents.apply(wanted, Observed(), {model.id: before})).models
    assert decided.scaled is not None
    return decided.scaled.wakes


def said_ready(model: DesiredModel, generation: int) -> ModelStatus:
    ready = Condition(
        type=ConditionType.ENGINE_READY,  # Ready may be False since Redis was away
        status=ConditionStatus.TRUE,
        reason=Reason.READY,
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=generation,
    )
    return ModelStatus(
        model_id=model.id,
        observed_generation=generation,
        served_names=(),
        replicas=1,
        ready_replicas=1,
        tokenizer_digest=None,
        conditions=(ready,),
    )
