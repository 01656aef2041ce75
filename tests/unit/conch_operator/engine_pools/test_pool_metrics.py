"""What is measured of the models of a pool while they take turns."""

from conch_contracts.conditions import Reason
from conch_contracts.names import ModelId, PoolId
from conch_operator.state import Fault
from testkit.pool_scene import Scene, pool_of, two_in_the_room_of_one

MIB = 1024**2


async def test_loads_and_those_that_go_for_others_are_counted(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    assert scene.counted("loads_total", result="loaded") == 2
    assert scene.counted("loads_total", result="failed") == 0
    assert scene.counted("unloads_total") == 1
    assert (scene.counted("residents"), scene.counted("memory_bytes")) == (1, 60 * MIB)
    assert scene.counted("wish_to_ready_seconds_count") == 0  # nobody has asked yet
    await scene.lives(10, a={"held": 1})
    assert scene.counted("loads_total", result="loaded") == 3
    assert scene.counted("unloads_total") == 2
    assert scene.counted("wish_to_ready_seconds_count") == 1
    assert 2 <= (scene.counted("wish_to_ready_seconds_sum") or 0) <= 10


async def test_a_failure_is_counted_each_time_that_it_is_tried(scene: Scene) -> None:
    fault = Fault(Reason.ENGINE_LOAD_FAILED, "Triton could not load a: no such file")
    scene.world.cluster.broken[ModelId("local/a")] = fault
    scene.add("a", sizeHint="60Mi")
    await scene.lives(10)
    assert scene.counted("loads_total", result="failed") == 1
    await scene.lives(30)
    assert scene.counted("loads_total", result="failed") == 2
    assert scene.counted("loads_total", result="loaded") == 0
    assert (scene.counted("residents"), scene.counted("unloads_total")) == (0, 0)


async def test_nothing_is_shown_of_a_pool_that_has_gone(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    scene.world.pools = {PoolId("local/other"): pool_of()}
    await scene.lives(5)
    shown = {sample.labels["pool"] for family in scene.measured.collect() for sample in family.samples}
    assert shown == {"local/other"}
