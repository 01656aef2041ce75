"""An operator that takes over goes on with the models that scale where the one before it has stopped."""

from dataclasses import replace

from conch_contracts.conditions import ConditionType
from conch_operator.state import EnginePhase
from testkit.scaling_scene import TINY, Scene, at_rest, followed


async def test_a_model_at_rest_stays_there(scene: Scene) -> None:
    before = await at_rest(scene)
    scene.begins_anew()
    status = (await scene.world.rounds(scene.model, count=3))[TINY]
    assert scene.world.cluster.running == {}
    assert status.condition(ConditionType.READY) == before.condition(ConditionType.READY)


async def test_requests_wait_on_for_an_engine_that_is_being_started(scene: Scene) -> None:
    await at_rest(scene)
    scene.nobody_answers()
    before = await scene.lives(2, held=1)
    assert (before.ready, before.replicas, before.ready_replicas) == (True, 1, 0)
    scene.begins_anew()
    status = await scene.lives(3, held=1)
    assert (status.ready, scene.route.wakes, scene.route.start_failed) == (True, True, None)


async def test_none_of_the_engines_that_are_there_goes(scene: Scene) -> None:
    scene.model = scene.world.model(scaling={"minReplicas": 1, "maxReplicas": 3})
    await scene.lives(30, in_flight=150)
    found = len(scene.world.cluster.running)
    assert found > 1
    scene.begins_anew()
    await scene.world.rounds(scene.model, count=5)
    assert len(scene.world.cluster.running) == found


async def test_where_somebody_else_decides_requests_wait_as_before(scene: Scene) -> None:
    await followed(scene, 1)
    await followed(scene, 0)
    scene.begins_anew()
    status = (await scene.world.rounds(scene.model, count=3))[TINY]
    assert (status.ready, scene.route.wakes) == (True, True)


async def test_where_the_registry_cannot_be_read_a_model_stays_at_rest(scene: Scene) -> None:
    await at_rest(scene)
    scene.world.registry.routes, scene.world.registry.answered, scene.world.registry.down = {}, False, True
    scene.begins_anew()
    await scene.world.rounds(scene.model, count=3)
    assert scene.world.cluster.running == {}


async def test_a_model_stays_at_rest_though_its_last_status_is_of_an_outage(scene: Scene) -> None:
    await at_rest(scene)
    scene.world.registry.down = True
    assert not (await scene.lives(7)).ready
    scene.world.registry.down = False
    scene.begins_anew()
    status = (await scene.world.rounds(scene.model, count=3))[TINY]
    assert (status.ready, scene.route.wakes, scene.world.cluster.running) == (True, True, {})


async def test_requests_wait_for_an_engine_that_ends_while_operators_change(scene: Scene) -> None:
    await scene.lives(5, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="was ended by signal 9.")
    scene.begins_anew()
    assert (await scene.lives(2, held=1)).ready
    scene.world.willing.gone = {engine.grpc}
    scene.world.cluster.running[name] = replace(engine, incarnation=engine.incarnation + 1)
    status = await scene.lives(2, held=1)
    assert (status.ready, scene.route.wakes, scene.route.start_failed) == (True, True, None)
