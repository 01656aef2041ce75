"""An engine that crashes at each start is one start: tried again where it is, and no wish wakes the model anew.

One that only had no place to start in has not crashed.
"""

from dataclasses import replace
from pathlib import Path

from conch_contracts.conditions import ConditionType, Reason
from conch_operator.model_folder.reader import folder_of
from conch_operator.probe.prober import NoAnswer
from conch_operator.state import ClusterEngine, EngineName, EnginePhase, Fault
from testkit.scaling_scene import TINY, Scene, at_rest, scaling_scene

CRASHES = 3
LONGER_THAN_REST_S = 120
"""Than `idleAfter`, and than two starts: with nothing to do a model whose engine answers would rest by then."""


async def test_an_engine_that_crashes_again_and_again_is_no_wish_after_wish(scene: Scene) -> None:
    await at_rest(scene)
    before = list(scene.world.cluster.stopped)
    scene.nobody_answers()
    scene.says(held=1)
    await scene.lives(1, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    for crash in range(1, CRASHES + 1):
        starts = replace(engine, incarnation=crash)
        scene.world.cluster.running[name] = replace(starts, phase=EnginePhase.EXITED, detail="ended with status 1.")
        assert not (await scene.lives(2, held=1)).ready
        for phase in (EnginePhase.EXITED, EnginePhase.RUNNING):  # the pause before the next start, and that start
            scene.world.cluster.running[name] = replace(starts, phase=phase)
            status = await scene.lives(LONGER_THAN_REST_S)
            assert scene.route.start_failed is not None, "so requests are refused at once and hold nothing"
            assert (status.ready, status.wanted_replicas) == (False, 1)
    scene.says(held=1)  # of a gateway that has not heard of it yet
    assert scene.woken == [(TINY, 1)]
    assert list(scene.world.cluster.running) == [name]
    assert scene.world.cluster.stopped == before
    scene.world.willing.gone = set()
    assert (await scene.lives(3, held=1)).ready


async def test_requests_wait_again_for_an_engine_that_has_found_its_place(scene: Scene) -> None:
    name, engine = await woken_in_vain(scene)
    full = Fault(Reason.UNSCHEDULABLE, "No node has room.")
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.BLOCKED, fault=full)
    assert not (await scene.lives(2, held=1)).ready
    assert scene.route.start_failed is not None
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.STARTING)
    assert (await scene.lives(2, held=1)).ready
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)


async def test_where_nodes_are_added_requests_wait_for_one_as_long_as_was_set(tmp_path: Path) -> None:
    async with scaling_scene(tmp_path, node_wait_s=30) as scene:
        name, engine = await woken_in_vain(scene)
        full = Fault(Reason.UNSCHEDULABLE, "No node has room.")
        scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.BLOCKED, fault=full)
        status = await scene.lives(30, held=1)
        ready = status.condition(ConditionType.READY)
        assert ready is not None
        assert (ready.holds, ready.reason) == (True, Reason.UNSCHEDULABLE)
        assert ready.message == "Requests wait for an engine that is being started. No node has room."
        assert (scene.route.wakes, scene.route.start_failed) == (True, None)
        assert not (await scene.lives(1, held=1)).ready
        assert scene.route.start_failed is not None
        scene.world.willing.gone = set()
        scene.world.cluster.running[name] = engine
        assert (await scene.lives(3, held=1)).ready


async def test_requests_wait_for_the_room_of_an_engine_that_ends(scene: Scene) -> None:
    last, name, engine = await woken_while_the_last_one_ends(scene)
    full = scene.world.cluster.running[name]
    await scene.lives(60, held=1)
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    scene.ends()
    await scene.lives(3, held=1)
    assert (scene.route.wakes, scene.route.start_failed) == (True, None), "the scheduler has not tried again"
    await scene.lives(1, held=1)
    assert scene.route.start_failed is not None, "so it was not the room of that engine"
    running = scene.world.cluster.running
    running[last] = replace(full, name=last, phase=EnginePhase.STOPPING)
    await scene.lives(1, held=1)
    assert scene.route.start_failed is not None, "an engine without a node leaves no room"
    running[last] = replace(running[last], fault=None)
    await scene.lives(1, held=1)
    assert scene.route.start_failed is not None, "nor is one waited for that ends later"
    running[name] = replace(engine, phase=EnginePhase.STARTING)
    await scene.lives(1, held=1)
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)


async def test_the_wait_for_the_room_of_an_engine_that_ends_is_no_part_of_a_start(scene: Scene) -> None:
    _, name, engine = await woken_while_the_last_one_ends(scene)
    before = await scene.lives(60, held=1)
    scene.ends()
    scene.world.willing.gone = set()
    scene.world.cluster.running[name] = engine
    after = await scene.lives(3, held=1)
    assert after.ready
    assert before.scaling is not None
    assert after.scaling is not None
    assert (before.scaling.start_seconds or 0) <= 2
    assert after.scaling.start_seconds is not None
    assert after.scaling.start_seconds <= 3


async def test_requests_wait_for_the_first_engine_of_an_edit_until_it_fails(scene: Scene) -> None:
    await at_rest(scene)
    await scene.lives(60)
    scene.nobody_answers()
    edited(scene, engine={"cpu": {"maxBatchSize": 3}})
    assert not (await scene.lives(2, held=1)).ready, "since no engine of it has answered"
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    ((name, engine),) = scene.world.cluster.running.items()
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="ended with status 1.")
    await scene.lives(2, held=1)
    assert scene.route.start_failed is not None
    scene.world.cluster.running[name] = replace(engine, incarnation=2)
    scene.world.willing.gone = set()
    assert (await scene.lives(3, held=1)).ready


async def test_a_good_edit_is_waited_for_though_the_one_before_it_has_failed(scene: Scene) -> None:
    await at_rest(scene)
    scene.nobody_answers()
    edited(scene, engine={"cpu": {"maxBatchSize": 3}})
    await scene.lives(2, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="ended with status 1.")
    await scene.lives(2, held=1)
    assert scene.route.start_failed is not None
    edited(scene, engine={"cpu": {"maxBatchSize": 4}})
    for _ in range(3):  # in the first of these rounds the engines are still those of the edit before
        await scene.lives(1, held=1)
        assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    scene.world.willing.gone = set()
    assert (await scene.lives(3, held=1)).ready


async def test_an_engine_that_ends_after_it_answered_has_not_failed_to_start(scene: Scene) -> None:
    await scene.lives(5, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="was ended by signal 9.")
    await scene.lives(1, held=1)
    assert scene.addresses == []
    assert (scene.route.wakes, scene.route.start_failed) == (True, None), "requests wait for its next start"
    again = replace(engine, incarnation=engine.incarnation + 1)
    scene.world.willing.gone = {engine.grpc}
    scene.world.cluster.running[name] = again
    await scene.lives(1, held=1)
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    scene.world.cluster.running[name] = replace(again, phase=EnginePhase.EXITED, detail="ended with status 1.")
    await scene.lives(1, held=1)
    assert scene.route.start_failed is not None, "since this time it has not answered"


async def test_one_engine_that_finds_no_place_refuses_nobody_while_another_starts(scene: Scene) -> None:
    await at_rest(scene)
    scene.nobody_answers()
    scene.says(held=100)
    await scene.lives(1, held=100)
    running = scene.world.cluster.running
    assert len(running) > 1
    full = Fault(Reason.UNSCHEDULABLE, "No node has room.")
    first, *others = running
    for name in others:
        running[name] = replace(running[name], phase=EnginePhase.BLOCKED, fault=full)
    assert (await scene.lives(2, held=100)).ready
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    running[first] = replace(running[first], phase=EnginePhase.EXITED, detail="ended with status 1.")
    status = await scene.lives(2, held=100)
    assert not status.ready
    assert scene.route.start_failed is not None, "now none is on its way"


async def test_a_good_edit_is_waited_for_though_the_one_before_it_has_failed_for_long(scene: Scene) -> None:
    await at_rest(scene)
    scene.nobody_answers()
    edited(scene, engine={"cpu": {"maxBatchSize": 3}})
    await scene.lives(2, held=1)
    scene.clock.advance(scene.model.deployment.spec.progress_deadline)
    await scene.lives(2, held=1)
    assert not scene.route.wakes
    edited(scene, engine={"cpu": {"maxBatchSize": 4}})
    await scene.lives(3, held=1)
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)


async def test_the_time_in_which_an_engine_cannot_start_is_no_time_of_a_start(scene: Scene) -> None:
    scene.nobody_answers()
    await scene.lives(2)
    ((name, engine),) = scene.world.cluster.running.items()
    missing = Fault(Reason.SECRET_NOT_FOUND, "The Secret x is missing.")
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.BLOCKED, fault=missing)
    await scene.lives(2)
    scene.clock.advance(8 * 3600)
    await scene.lives(1)
    scene.world.cluster.running[name], scene.world.willing.gone = engine, set()
    await scene.lives(3)
    assert scene.route.start_s is not None
    assert scene.route.start_s < 10


async def test_an_edit_whose_folder_is_missing_is_refused_with_a_reason_at_once(scene: Scene) -> None:
    await at_rest(scene)
    edited(scene, source={"path": "nowhere"})
    for _ in range(3):
        await scene.lives(1, held=1)
        assert scene.route.start_failed is not None


async def woken_while_the_last_one_ends(scene: Scene) -> tuple[EngineName, EngineName, ClusterEngine]:
    """Wake a model whose last engine has not gone; return that, the one that finds no node, and how it is with one."""
    await scene.lives(5)
    await scene.lives(70)
    running = scene.world.cluster.running
    (last,) = running
    assert running[last].phase is EnginePhase.STOPPING
    scene.nobody_answers()
    await scene.lives(1, held=1)
    running = scene.world.cluster.running
    (name,) = set(running) - {last}
    engine, full = running[name], Fault(Reason.UNSCHEDULABLE, "No node has room.")
    running[name] = replace(engine, phase=EnginePhase.BLOCKED, fault=full)
    return last, name, engine


async def woken_in_vain(scene: Scene) -> tuple[EngineName, ClusterEngine]:
    """Wake a model at rest; return the engine that starts, and does not answer."""
    await at_rest(scene)
    scene.nobody_answers()
    scene.says(held=1)
    await scene.lives(1, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    return name, engine


def edited(scene: Scene, **spec: object) -> None:
    said = scene.model.deployment.spec.model_dump(by_alias=True, exclude_unset=True, mode="json")
    scene.model = scene.world.model(**said | spec)


async def test_an_engine_that_was_evicted_does_not_speak_for_its_successor(scene: Scene) -> None:
    await scene.lives(5, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    evicted = replace(engine, phase=EnginePhase.EXITED, comes_back=False, detail="was evicted.")
    scene.world.cluster.running[name] = evicted
    await scene.lives(1, held=1)
    assert (scene.route.wakes, scene.route.start_failed) == (True, None), "another one is to take its place"
    scene.world.cluster.rejected = {TINY: Fault(Reason.REJECTED, "The quota is exceeded.")}
    await scene.lives(2, held=1)
    assert scene.route.start_failed is not None
    scene.world.cluster.rejected = {}
    await scene.lives(2, held=1)
    assert scene.route.start_failed is None
    next_name = EngineName("next")
    full = Fault(Reason.UNSCHEDULABLE, "No node has room.")
    scene.world.cluster.running[next_name] = replace(engine, name=next_name, phase=EnginePhase.BLOCKED, fault=full)
    await scene.lives(2, held=1)
    assert scene.route.start_failed is not None


async def test_nobody_waits_for_a_model_whose_folder_has_gone(scene: Scene) -> None:
    await at_rest(scene)
    folder = folder_of(scene.model)
    away = folder.rename(folder.with_name("away"))
    status = await scene.lives(2)
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.holds, ready.reason) == (False, Reason.FOLDER_MISSING)
    assert (scene.route.wakes, scene.route.start_failed is None) == (True, False), "so requests are refused at once"
    away.rename(folder)
    assert (await scene.lives(2)).ready
    assert scene.route.start_failed is None
    await scene.lives(3, held=1)
    assert len(scene.addresses) == 1
    folder.rename(away)
    assert (await scene.lives(LONGER_THAN_REST_S)).ready, "it serves on, as nobody could start another one"
    assert len(scene.addresses) == 1
    away.rename(folder)
    assert (await scene.lives(LONGER_THAN_REST_S)).wanted_replicas == 0


async def test_requests_wait_for_an_engine_that_errs_after_it_answered_until_its_next_start_fails(scene: Scene) -> None:
    await scene.lives(5, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    scene.nobody_answers()
    scene.world.willing.cause = NoAnswer(Reason.ENGINE_PROBE_FAILED, "CUDA error")
    await scene.lives(2, held=1)
    assert scene.addresses == []
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    scene.world.cluster.running[name] = replace(engine, incarnation=engine.incarnation + 1)
    await scene.lives(2, held=1)
    assert scene.route.start_failed is not None


async def could_not_load(scene: Scene) -> Path:
    """Wake a model at rest whose folder has gone when its server loads it; return where the folder is now."""
    await woken_in_vain(scene)
    scene.world.willing.cause = NoAnswer(Reason.ENGINE_LOAD_FAILED, "There is no such folder.")
    folder = folder_of(scene.model)
    away = folder.rename(folder.with_name("away"))
    await scene.lives(3, held=1)
    assert scene.route.start_failed is not None
    scene.ends()
    assert not scene.world.cluster.running
    return away


async def test_requests_wait_again_as_soon_as_the_folder_of_a_server_that_could_not_load_is_back(scene: Scene) -> None:
    away = await could_not_load(scene)
    scene.clock.advance(scene.model.deployment.spec.progress_deadline)
    await scene.lives(2)
    away.rename(folder_of(scene.model))
    scene.world.willing.cause = NoAnswer(Reason.ENGINE_UNREACHABLE, "Nothing answers yet.")
    await scene.lives(2)  # a folder is taken up when it has looked the same twice
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    assert len(scene.world.cluster.running) == 1
    scene.world.willing.gone = set()
    await scene.lives(3, held=1)
    assert len(scene.addresses) == 1


async def test_a_model_whose_folder_was_away_for_long_is_at_rest_when_it_is_back(scene: Scene) -> None:
    away = await could_not_load(scene)
    await scene.lives(LONGER_THAN_REST_S)
    away.rename(folder_of(scene.model))
    status = await scene.lives(5)
    assert (status.ready, status.wanted_replicas, scene.world.cluster.running) == (True, 0, {})
    assert (scene.route.wakes, scene.route.start_failed) == (True, None)
    scene.world.willing.gone = set()
    await scene.lives(3, held=1)
    assert len(scene.addresses) == 1
