"""A model of a pool that could not be loaded is tried again, whether anybody asks for it or not."""

from itertools import pairwise
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import ModelId, PoolId
from conch_operator.engine_pools.known_model import KnownModel
from conch_operator.state import Fault
from testkit.builders.model_deployments import desired_model
from testkit.pool_scene import Scene, ready, two_in_the_room_of_one

FAULT = Fault(Reason.ENGINE_LOAD_FAILED, "Triton could not load it: its process was killed")


async def fails_to_load(scene: Scene, name: str, **demand: dict[str, Any]) -> None:
    """Let the model be loaded in vain, and then nothing be wrong with it any more."""
    scene.world.cluster.broken[ModelId(f"local/{name}")] = FAULT
    for _ in range(20):
        status = (await scene.lives(1, **demand))[name]
        if not status.ready:
            break
    assert not status.ready
    scene.world.cluster.broken.clear()


async def seconds_until_ready(scene: Scene, name: str, **demand: dict[str, Any]) -> int:
    for passed_s in range(1, 900):
        if (await scene.lives(1, **demand))[name].ready:
            return passed_s
    pytest.fail(f"{name} is never tried again")


@pytest.mark.parametrize("demand", [{}, {"a": {"held": 1}}], ids=["asked by nobody", "asked"])
async def test_one_that_has_worked_is_tried_again_after_half_a_minute(
    scene: Scene, demand: dict[str, dict[str, Any]]
) -> None:
    await two_in_the_room_of_one(scene)
    await fails_to_load(scene, "a", a={"held": 1})
    assert 20 <= await seconds_until_ready(scene, "a", **demand) <= 40


async def test_one_that_has_worked_gets_its_turn_among_busy_ones(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    await fails_to_load(scene, "a", a={"held": 1}, b={"in_flight": 1})
    assert 20 <= await seconds_until_ready(scene, "a", b={"held": 1}) <= 60


async def test_a_busy_one_goes_for_one_that_never_worked_every_ten_minutes_only(scene: Scene) -> None:
    scene.add("a", sizeHint="60Mi")
    await fails_to_load(scene, "a")
    scene.add("b", sizeHint="60Mi")
    busy = {"b": {"held": 1}}
    assert (await scene.lives(10, **busy))["b"].ready
    assert 560 <= await seconds_until_ready(scene, "a", **busy) <= 620


async def test_pauses_grow_to_ten_minutes(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    scene.world.cluster.broken[ModelId("local/a")] = FAULT
    await scene.lives(10, a={"held": 1})
    tries = []
    for second in range(2200):
        there = "a" in scene.there
        await scene.lives(1)
        if "a" in scene.there and not there:
            tries.append(second)
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert pauses[0] in range(55, 70)
    assert pauses[-1] in range(595, 610)


def test_one_that_has_failed_for_weeks_is_tried_again_as_ever() -> None:
    known = KnownModel(PoolId("local/small"), desired_model(kind="Embedding", placement={"pool": "small"}))
    for _ in range(3000):
        known.fails(0.0)
    assert [known.may_be_tried(now_s) for now_s in (599.0, 600.0)] == [False, True]


async def test_one_whose_folder_has_gone_takes_no_place_and_is_loaded_when_it_is_back(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    (resident,) = scene.there
    (other,) = {"a", "b"} - {resident}
    folder = scene.world.folder / "tiny"
    away = folder.rename(folder.with_name("away"))
    await scene.lives(3)
    for _ in range(60):
        status = (await scene.lives(1, **{other: {"held": 1}}))[other]
        assert scene.there == {resident}
    assert ready(status) == ("False", Reason.FOLDER_MISSING)
    assert scene.route(other).start_failed is not None, "so requests are refused at once"
    away.rename(folder)
    await scene.lives(2)
    assert scene.route(other).start_failed is None
    assert await seconds_until_ready(scene, other, **{other: {"held": 1}}) <= 10


async def test_one_that_could_not_be_loaded_waits_for_no_pause_once_its_folder_was_away(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    await fails_to_load(scene, "a", a={"held": 1})
    await scene.lives(2)
    folder = scene.world.folder / "tiny"
    away = folder.rename(folder.with_name("away"))
    await scene.lives(3)
    away.rename(folder)
    await scene.lives(2)
    assert await seconds_until_ready(scene, "a", a={"held": 1}) <= 10
