"""Where no node has room for an engine that somebody waits for, the model that has been idle longest rests early."""

from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.names import ModelId
from conch_operator.scaling.decision import LENT_AFTER_S
from conch_operator.scaling.lent_room import PATIENCE_S
from conch_operator.state import DesiredModel, EnginePhase, Fault
from testkit.scaling_scene import FROM_ZERO, Scene, at_rest

LONG = {**FROM_ZERO, "idleAfter": "10m"}
EARLY, LATE = ModelId("local/early"), ModelId("local/late")
FULL = Fault(Reason.UNSCHEDULABLE, "No node has room.")


def other(scene: Scene, model: ModelId, scaling: dict[str, Any] = LONG, **spec: Any) -> DesiredModel:
    return scene.world.model(name=model.partition("/")[2], scaling=scaling, **spec)


async def lives(
    scene: Scene, seconds: int, *, room: int = 2, ends: bool = True, taken: bool = False, **demand: Any
) -> None:
    """Let time pass on nodes that have room for so many engines; one that ends is there for a second, or goes on.

    `taken`: somebody else takes the room that engines leave.
    """
    for _ in range(seconds):
        running = scene.world.cluster.running
        ending = [name for name, engine in running.items() if engine.phase is EnginePhase.STOPPING]
        placed = [name for name, engine in running.items() if engine.fault is None]
        await scene.lives(1, **demand)
        for name in ending if ends else ():
            running.pop(name)
        for place, (name, engine) in enumerate(running.items()):
            if engine.phase is not EnginePhase.STOPPING:
                runs = name in placed if taken else place < room
                phase, fault = (EnginePhase.RUNNING, None) if runs else (EnginePhase.BLOCKED, FULL)
                running[name] = replace(engine, phase=phase, fault=fault)


async def with_full_nodes(scene: Scene, *others: DesiredModel, room: int = 2) -> None:
    """Have the model at rest, and others take all the room, the first of them idle for longer."""
    await at_rest(scene)
    scene.others = [*others]
    await lives(scene, 3, room=room)
    scene.asked = {model.id: {"in_flight": 1} for model in others}
    await lives(scene, 2, room=room)
    for model in others:
        del scene.asked[model.id]
        await lives(scene, 7, room=room)


def serving(scene: Scene) -> set[ModelId]:
    """Return the models that have an engine in their route."""
    return {model for model, (_, engines) in scene.world.registry.routes.items() if engines}


async def test_of_models_that_are_idle_the_one_longest_idle_rests_for_one_that_somebody_waits_for(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    for _ in range(12):
        await lives(scene, 1, held=1)
        assert (scene.route.wakes, scene.route.start_failed) == (True, None), "whoever waits is not refused"
    assert serving(scene) == {scene.model.id, LATE}
    status = scene.world.statuses[EARLY]
    assert status.scaling is not None
    assert (status.scaling.desired, status.scaling.reason) == (0, "Lent")
    assert status.condition(ConditionType.READY).reason is Reason.SCALED_TO_ZERO
    await lives(scene, 60, in_flight=1)
    assert serving(scene) == {scene.model.id, LATE}, "nobody waits any more"


async def test_where_the_one_longest_idle_takes_long_to_start_another_rests_that_does_not(scene: Scene) -> None:
    await at_rest(scene)
    scene.nobody_answers()
    scene.others = [other(scene, EARLY)]
    await lives(scene, 30)
    scene.world.willing.gone = set()
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    await lives(scene, 12, held=1)
    assert serving(scene) == {scene.model.id, EARLY}


async def test_models_take_turns_on_a_node_with_room_for_one(scene: Scene) -> None:
    scene.model = scene.world.model(scaling=LONG)
    await lives(scene, 3, room=1)
    scene.others = [other(scene, EARLY)]
    scene.asked = {EARLY: {"held": 1}}
    for _ in range(2):
        await lives(scene, 20, room=1)
        assert serving(scene) == {EARLY}
        scene.asked = {}
        await lives(scene, 7, room=1)
        await lives(scene, 20, room=1, held=1)
        assert serving(scene) == {scene.model.id}
        await lives(scene, 7, room=1)
        scene.asked = {EARLY: {"held": 1}}


async def test_while_all_are_busy_nobody_rests_and_whoever_waits_is_refused_after_a_while(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    scene.asked = {EARLY: {"in_flight": 1}, LATE: {"queued": 1}}
    await lives(scene, 1)
    await lives(scene, int(PATIENCE_S), held=1)
    assert scene.route.start_failed is None
    await lives(scene, 3, held=1)
    assert scene.route.start_failed is not None
    del scene.asked[LATE]
    await lives(scene, int(LENT_AFTER_S) + 3)
    assert scene.route.start_failed is None, "whoever comes again is held"
    assert serving(scene) == {EARLY, LATE}, "and until then nobody rests"
    await lives(scene, 10, held=1)
    assert serving(scene) == {EARLY, scene.model.id}


async def test_a_model_that_comes_to_have_room_to_lend_is_waited_for_as_long(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), room=1)
    scene.nobody_answers()
    await lives(scene, int(PATIENCE_S) + 3, room=1, held=1)
    assert scene.route.start_failed is not None
    scene.world.willing.gone = set()
    scene.asked = {EARLY: {"in_flight": 1}}
    await lives(scene, 2, room=1, held=1)
    assert scene.route.start_failed is None
    scene.asked = {}
    for _ in range(int(PATIENCE_S) - 2):
        await lives(scene, 1, room=1, held=1)
        assert scene.route.start_failed is None
    await lives(scene, 5, room=1, held=1)
    assert serving(scene) == {scene.model.id}


async def test_who_is_to_rest_for_somebody_that_has_hung_up_stays(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    await lives(scene, 3, held=1)
    assert serving(scene) == {LATE}
    await lives(scene, 30)
    assert serving(scene) == {EARLY, LATE}


async def test_who_was_to_rest_for_a_model_that_is_deleted_stays(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, LATE))
    scene.others.append(other(scene, EARLY))
    scene.asked = {EARLY: {"held": 1}}
    await lives(scene, 2, room=1)
    scene.others.pop()
    scene.asked = {}
    await lives(scene, 60, room=1)
    assert serving(scene) == {LATE}


async def test_two_that_wait_get_the_room_of_two(scene: Scene) -> None:
    third = ModelId("local/third")
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    scene.others.append(other(scene, third))
    scene.asked = {third: {"held": 1}}
    await lives(scene, 15, held=1)
    assert serving(scene) == {scene.model.id, third}


async def test_an_operator_that_takes_over_refuses_nobody_whom_the_one_before_had_wait(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    await lives(scene, 2, held=1)
    scene.begins_anew()
    for _ in range(15):
        await lives(scene, 1, held=1)
        assert scene.route.start_failed is None
    assert scene.model.id in serving(scene)


async def test_who_is_asked_before_it_has_gone_keeps_its_engine_and_another_rests(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    await lives(scene, 3, held=1)
    assert serving(scene) == {LATE}, "the other one has left its route"
    scene.asked = {EARLY: {"held": 1}}
    stopped = list(scene.world.cluster.stopped)
    await lives(scene, 12, held=1)
    assert serving(scene) == {EARLY, scene.model.id}
    assert len(scene.world.cluster.stopped) == len(stopped) + 1
    assert scene.route.start_failed is None


async def test_two_rest_at_most_where_that_is_not_enough(scene: Scene) -> None:
    last = ModelId("local/last")
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE), other(scene, last), room=3)
    await lives(scene, 60, taken=True, held=1)
    assert serving(scene) == {last}
    assert scene.route.start_failed is not None


async def test_the_room_of_an_engine_that_ends_is_waited_for_before_another_model_rests(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    scene.others.pop()  # deleted, and slow to end
    await lives(scene, 3, ends=False)
    await lives(scene, 30, ends=False, held=1)
    assert serving(scene) == {EARLY}
    assert scene.route.start_failed is None
    await lives(scene, 3, held=1)
    assert serving(scene) == {EARLY, scene.model.id}


async def test_the_room_of_an_engine_that_never_had_any_is_not_waited_for(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), room=1)
    scene.others.append(other(scene, LATE))
    await lives(scene, 2, room=1)
    scene.others.pop()  # deleted, and slow to end
    await lives(scene, 3, room=1, ends=False)
    await lives(scene, 12, room=1, ends=False, held=1)
    assert serving(scene) == set(), "the one that is idle leaves its engine"


async def test_nobody_rests_for_the_new_engine_of_a_model_whose_old_one_serves(scene: Scene) -> None:
    await lives(scene, 3)
    scene.others = [other(scene, EARLY)]
    await lives(scene, int(LENT_AFTER_S) + 30, in_flight=1)
    scene.model = scene.world.model(scaling=FROM_ZERO, engine={"cpu": {"maxBatchSize": 3}})
    await lives(scene, 20, in_flight=1)
    assert len(scene.world.cluster.running) == 3, "the new engine finds no room"
    assert serving(scene) == {scene.model.id, EARLY}


async def test_a_model_rests_for_the_first_engine_of_a_new_one(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    new = ModelId("local/new")
    scene.others.append(other(scene, new))
    await lives(scene, 20)
    assert serving(scene) == {LATE, new}
    assert scene.world.statuses[new].condition(ConditionType.READY).status == "True"


async def test_a_model_rests_for_the_first_engine_of_one_that_was_edited_at_rest(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    scene.model = scene.world.model(scaling=LONG, engine={"cpu": {"maxBatchSize": 3}})
    await lives(scene, 20)
    assert serving(scene) == {scene.model.id, LATE}


async def test_a_model_that_nobody_asks_gets_nobodys_room(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY), other(scene, LATE))
    scene.model = scene.world.model(scaling={**LONG, "minReplicas": 1})
    await lives(scene, 30)
    assert serving(scene) == {EARLY, LATE}


GPU = "nvidia.com/gpu"


def engine(limits: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"cpu": {}, **({} if limits is None else {"resources": {"limits": limits}}), **fields}


@pytest.mark.parametrize(
    ("lent", "needed", "lends"),
    [
        (engine({GPU: 1}), engine({GPU: 1}), True),
        (engine({GPU: 2}), engine({GPU: 1}), True),
        (engine({GPU: 1}), engine({GPU: 2}), False),
        (engine({GPU: 1}), engine({"amd.com/gpu": 1}), False),
        (engine(), engine({"cpu": "100m"}), True),
        (engine(), engine({"cpu": "2"}), False),
        (engine({"cpu": "50m"}), engine(), False),
        (engine(nodeSelector={"disk": "fast"}), engine(nodeSelector={"disk": "fast"}), True),
        (engine(), engine(nodeSelector={"disk": "fast"}), False),
        (engine(nodeSelector={"disk": "fast"}), engine(), False),
        (engine(tolerations=[{"key": "gpu", "operator": "Exists"}]), engine(), False),
    ],
)
async def test_a_model_rests_for_another_whose_engine_fits_into_its_room(
    lent: dict[str, Any], needed: dict[str, Any], lends: bool, scene: Scene
) -> None:
    scene.model = scene.world.model(scaling=FROM_ZERO, engine=needed)
    await with_full_nodes(scene, other(scene, EARLY, engine=lent))
    await lives(scene, 12, room=1, held=1)
    assert serving(scene) == ({scene.model.id} if lends else {EARLY})
    assert (scene.route.start_failed is None) is lends


@pytest.mark.parametrize(
    "scaling",
    [
        {**LONG, "minReplicas": 1},
        {**LONG, "schedules": [{"cron": "* * * * *", "min": 1}]},
        None,
    ],
)
async def test_a_model_that_must_not_rest_lends_nothing(scaling: dict[str, Any] | None, scene: Scene) -> None:
    model = scene.world.model(name="early") if scaling is None else other(scene, EARLY, scaling)
    await with_full_nodes(scene, model)
    await lives(scene, 12, room=1, held=1)
    assert serving(scene) == {EARLY}
    assert scene.route.start_failed is not None


async def test_one_that_has_just_got_done_is_waited_for_until_it_lends(scene: Scene) -> None:
    await with_full_nodes(scene, other(scene, EARLY))
    scene.asked = {EARLY: {"in_flight": 1}}
    await lives(scene, 2, room=1)
    scene.asked = {}
    waited_s = 0
    while EARLY in serving(scene):
        waited_s += 1
        await lives(scene, 1, room=1, held=1)
        assert scene.route.start_failed is None
    assert LENT_AFTER_S <= waited_s <= LENT_AFTER_S + 2, "and a round to see it, and one to leave the route"
