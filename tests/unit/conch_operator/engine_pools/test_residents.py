"""Rounds of models that share a pool: they take turns, lose nothing meanwhile, and are alone in their trouble."""

import asyncio
from dataclasses import replace

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import ModelId, PoolId
from conch_operator.engine_pools import residents
from conch_operator.state import DesiredModel, EnginePhase, Fault
from testkit.builders.model_deployments import model_deployment
from testkit.pool_scene import POOL, Scene, message, pool_of, ready, two_in_the_room_of_one


async def test_each_model_is_loaded_once_and_then_a_request_to_any_of_them_waits_for_it(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    assert scene.there == {"b"}  # for its sake the first one went, since nobody had asked for that
    statuses = await scene.lives(1)
    assert ready(statuses["a"]) == ("True", Reason.SCALED_TO_ZERO)
    assert ready(statuses["b"]) == ("True", Reason.READY)
    assert (scene.route("a").wakes, scene.route("a").engines_wanted, scene.route("a").start_failed) == (
        True,
        True,
        None,
    )
    assert {statuses["a"].scaling.reason, statuses["b"].scaling.reason} == {"Out", "Resident"}  # type: ignore[union-attr]


async def test_nobody_waits_for_a_model_whose_pool_is_gone(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    scene.world.pools = {}
    await scene.lives(1, a={"held": 1})
    assert scene.route("a").start_failed == "its status says why."
    scene.world.pools = {POOL: pool_of()}
    await scene.lives(20, a={"held": 1})
    assert ("a" in scene.there, scene.route("a").start_failed) == (True, None)


async def test_a_model_that_is_waited_for_comes_in_when_all_of_the_other_has_ended(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    await scene.lives(6, b={"in_flight": 1, "taken": {scene.engine("b").grpc: 1}})  # type: ignore[union-attr]
    address = scene.engine("b").grpc  # type: ignore[union-attr]
    await scene.lives(9, a={"held": 2}, b={"in_flight": 1, "taken": {address: 1}})
    assert scene.there == {"b"}
    assert scene.world.registry.addresses("local/b") == []  # nothing new reaches it
    assert scene.route("b").wakes  # but waits
    await scene.lives(4, a={"held": 2})
    assert scene.there == {"a"}
    assert len(scene.world.registry.addresses("local/a")) == 1


async def test_nothing_goes_while_a_gateway_has_not_said_what_it_has(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    await scene.lives(8, b={"idle_s": 0.5})
    scene.demand = {"a": {"held": 1}}
    scene.says()
    for _ in range(25):
        scene.clock.advance(0.1)
        await scene.world.rounds(*scene.models.values(), count=1)  # the gateway has not applied what it is told
    assert scene.world.registry.addresses("local/b") == []
    scene.world.registry.applied = scene.world.registry.revision
    await scene.world.rounds(*scene.models.values(), count=3)  # it has, but not said since that nothing is left
    assert scene.world.cluster.stopped[-1].startswith("local/small/a-")
    scene.says()
    await scene.world.rounds(*scene.models.values(), count=3)
    assert scene.world.cluster.stopped[-1].startswith("local/small/b-")


async def test_a_model_that_cannot_be_loaded_leaves_the_others_their_room_and_is_tried_again(scene: Scene) -> None:
    fault = Fault(Reason.ENGINE_LOAD_FAILED, "Triton could not load a: no such file")
    scene.world.cluster.broken[ModelId("local/a")] = fault
    scene.add("a", sizeHint="60Mi")
    statuses = await scene.lives(5)
    assert scene.there == set()
    assert ready(statuses["a"]) == ("False", Reason.ENGINE_LOAD_FAILED)
    assert "no such file" in message(statuses["a"])
    assert "tried again" in message(statuses["a"])
    scene.add("b", sizeHint="60Mi")
    statuses = await scene.lives(10, a={"held": 1}, b={"held": 1})
    assert (scene.there, statuses["b"].ready) == ({"b"}, True)
    assert scene.route("a").start_failed == "its status says why."
    scene.world.cluster.broken.clear()
    assert ready((await scene.lives(40))["a"]) == ("True", Reason.READY)
    assert scene.route("a").start_failed is None


async def test_a_model_that_is_not_started_for_want_of_a_name_keeps_nobody_out(scene: Scene) -> None:
    scene.add("a", sizeHint="60Mi")
    await scene.lives(3)
    spec = {"kind": "Embedding", "placement": {"pool": "small", "sizeHint": "60Mi"}, "servedNames": ["a"]}
    scene.models["b"] = DesiredModel(model_deployment("b", **spec), scene.world.folder, 2)
    statuses = await scene.lives(20)
    assert ready(statuses["b"]) == ("False", Reason.NAME_CONFLICT)
    assert scene.there == set()  # for its sake the other one went
    await scene.lives(5, a={"held": 1})
    assert scene.there == {"a"}


async def test_a_model_that_is_too_large_says_so_and_holds_up_nobody(scene: Scene) -> None:
    scene.add("a", sizeHint="200Mi")
    scene.add("b", sizeHint="60Mi")
    statuses = await scene.lives(5)
    assert ready(statuses["a"]) == ("False", Reason.TOO_LARGE)
    assert message(statuses["a"]).startswith("It takes 200 MiB. The EnginePool small has 100 MiB, of which 0 pinned")
    assert statuses["b"].ready
    statuses = await scene.lives(60, a={"held": 9})
    assert (ready(statuses["a"]), statuses["b"].ready) == (("False", Reason.TOO_LARGE), True)
    assert scene.route("a").start_failed is not None, "so requests are refused at once"
    assert (scene.there, scene.world.cluster.stopped) == ({"b"}, []), "and nobody goes in vain"
    assert scene.counted("loads_total", result="loaded") == 1


async def test_what_is_pinned_stays_and_leaves_the_rest_to_the_others(scene: Scene) -> None:
    scene.add("a", sizeHint="50Mi", pinned=True)
    scene.add("b", sizeHint="40Mi")
    scene.add("c", sizeHint="40Mi")
    await scene.lives(25)
    assert {"a"} < scene.there
    await scene.lives(15, c={"held": 1})
    assert scene.there == {"a", "c"}
    await scene.lives(15, b={"held": 1})
    assert scene.there == {"a", "b"}


async def test_of_two_that_are_pinned_where_one_has_room_the_first_is_loaded(scene: Scene) -> None:
    scene.add("a", sizeHint="60Mi", pinned=True)
    scene.add("b", sizeHint="60Mi", pinned=True)
    statuses = await scene.lives(10)
    assert scene.there == {"a"}
    assert "of which 1 pinned ones take 60 MiB" in message(statuses["b"])


async def test_a_measured_size_takes_the_place_of_what_was_thought(scene: Scene) -> None:
    scene.add("a", sizeHint="40Mi")
    scene.add("b", sizeHint="40Mi")
    await scene.lives(5)
    assert scene.there == {"a", "b"}
    scene.change("a", memory_bytes=80 * 1024**2)
    await scene.lives(10)
    assert len(scene.there) == 1


async def test_a_model_takes_the_room_that_it_needed_at_its_largest(scene: Scene) -> None:
    scene.add("a", sizeHint="40Mi")
    await scene.lives(5)
    for size_mib in (80, 40):
        scene.change("a", memory_bytes=size_mib * 1024**2)
        await scene.lives(2)
    scene.add("b", sizeHint="40Mi")
    for _ in range(10):
        await scene.lives(1)
        assert len(scene.world.cluster.running) <= 1


async def test_an_edit_gives_up_the_place_before_the_new_spec_takes_it(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    before = scene.engine("b")
    assert before is not None
    edited = scene.models["b"].deployment.model_copy(
        update={"spec": scene.models["b"].deployment.spec.model_copy(update={"max_tokens": 4})}
    )
    scene.models["b"] = replace(scene.models["b"], deployment=edited)
    await scene.lives(3)
    assert scene.engine("b") == before  # no engine is made from what was edited
    engine = edited.spec.engine.model_copy(
        update={"cpu": edited.spec.engine.cpu.model_copy(update={"max_batch_size": 3})}
    )  # type: ignore[union-attr]
    spec = edited.spec.model_copy(update={"engine": engine})
    scene.models["b"] = replace(scene.models["b"], deployment=edited.model_copy(update={"spec": spec}))
    most = 0
    for _ in range(12):
        await scene.lives(1)
        most = max(most, len(scene.world.cluster.running))
        assert scene.route("b").wakes
    assert most == 1
    after = scene.engine("b")
    assert after is not None
    assert after.spec_hash != before.spec_hash
    assert after.contract.triton_model != before.contract.triton_model


async def test_a_model_that_is_removed_makes_room(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    del scene.models["b"]
    await scene.lives(8, a={"held": 1})
    assert scene.there == {"a"}


async def test_a_model_may_move_to_another_pool_and_to_an_engine_of_its_own(scene: Scene) -> None:
    scene.world.pools = {POOL: pool_of(), PoolId("local/other"): pool_of()}
    await two_in_the_room_of_one(scene)
    scene.add("b", sizeHint="60Mi", pool="other")
    statuses = await scene.lives(12)
    assert statuses["b"].ready_replicas == 1
    await scene.lives(8, a={"held": 1})
    assert scene.there == {"a", "b"}
    scene.models["b"] = DesiredModel(model_deployment("b", kind="Embedding"), scene.world.folder, 1)
    statuses = await scene.lives(8)
    assert (statuses["b"].ready_replicas, statuses["b"].scaling) == (1, None)
    scene.add("c", sizeHint="60Mi", pool="other")
    assert (await scene.lives(5))["c"].ready  # what it left is free


async def test_a_model_with_engines_of_its_own_moves_into_a_pool_without_losing_a_request(scene: Scene) -> None:
    scene.models["b"] = DesiredModel(model_deployment("b", kind="Embedding"), scene.world.folder, 1)
    await scene.lives(4)
    scene.add("b", sizeHint="60Mi")
    for _ in range(8):
        await scene.lives(1, b={"held": 1})
        assert scene.route("b").wakes
    engine = scene.engine("b")
    assert engine is not None
    assert engine.contract.triton_model != "model"


async def test_a_dead_engine_is_started_again_in_its_place(scene: Scene) -> None:
    scene.add("a", sizeHint="60Mi")
    await scene.lives(3)
    scene.change("a", phase=EnginePhase.EXITED, detail="was in a server that was killed by SIGKILL.")
    statuses = await scene.lives(2)
    assert ready(statuses["a"]) == ("True", Reason.ENGINE_EXITED)
    assert scene.route("a").wakes, "since requests wait for it"
    scene.change("a", phase=EnginePhase.RUNNING)
    assert (await scene.lives(2))["a"].ready
    assert scene.world.cluster.stopped == []


async def test_two_that_are_woken_in_the_room_of_one_come_in_once_for_each_call(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    loads = scene.counted("loads_total", result="loaded") or 0
    scene.book.awake_until = {ModelId("local/a"): 601.0, ModelId("local/b"): 601.0}
    await scene.lives(60)
    assert scene.there == {"a"}
    assert scene.counted("loads_total", result="loaded") == loads + 1
    scene.book.awake_until = {ModelId("local/a"): 601.0, ModelId("local/b"): 601.001}  # as when somebody asks again
    await scene.lives(60)
    assert scene.there == {"b"}
    await scene.lives(20, a={"held": 1})
    assert scene.there == {"a"}


async def test_a_round_is_due_for_a_request_to_a_model_that_is_not_in(scene: Scene) -> None:
    await two_in_the_room_of_one(scene)
    scene.due.clear()
    scene.demand = {"b": {"in_flight": 1}}
    scene.says()
    assert scene.due == []
    scene.demand = {"a": {"held": 1}}
    scene.says()
    assert scene.due != []


async def rounds_due_by_the_clock(scene: Scene) -> int:
    """Return how many rounds are due within some ticks, though nobody says anything."""
    scene.due.clear()
    async with scene.residents:
        for _ in range(20):
            await asyncio.sleep(0)
    return len(scene.due)


async def test_rounds_are_due_while_models_change_places(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "_TICK_S", 0.0)
    await two_in_the_room_of_one(scene)
    assert await rounds_due_by_the_clock(scene) == 0
    await scene.lives(1, a={"held": 1}, b={"in_flight": 1})
    assert await rounds_due_by_the_clock(scene) > 10
    await scene.lives(30, a={"held": 1})
    assert await rounds_due_by_the_clock(scene) == 0


async def test_none_is_due_for_one_that_has_no_room_whoever_goes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "_TICK_S", 0.0)
    scene.add("a", sizeHint="200Mi", pinned=True)
    await scene.lives(3, a={"held": 1})
    assert await rounds_due_by_the_clock(scene) == 0
