"""Rounds of a model that scales: it proves itself, rests, wakes and tells the truth meanwhile."""

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.names import Digest
from conch_contracts.records import GatewayLoad
from conch_kit.registry.liveness import EXPIRY_S
from conch_operator.reconcile import status
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.reconcile.reconciler import Reconciler
from conch_operator.routes import known_routes
from conch_operator.state import EnginePhase
from testkit.scaling_scene import FROM_ZERO, TINY, Scene, at_rest, followed


async def test_a_new_model_starts_once_and_then_rests_with_a_route_that_wakes_it(scene: Scene) -> None:
    status = await scene.lives(5)
    assert (status.ready, status.ready_replicas, len(scene.addresses)) == (True, 1, 1)
    assert status.condition(ConditionType.READY).reason is Reason.READY  # type: ignore[union-attr]
    status = await at_rest(scene)
    assert (status.replicas, status.settled, scene.world.cluster.running) == (0, True, {})
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert ready.reason is Reason.SCALED_TO_ZERO
    assert ready.message.startswith("No engine runs. A request starts one")
    assert status.scaling is not None
    assert (status.scaling.desired, status.scaling.reason, status.wanted_replicas) == (0, "Idle", 0)
    route = scene.route
    assert (scene.addresses, route.wakes, route.engines_wanted, route.hold_max) == ([], True, True, 7)
    assert route.start_s is not None


async def test_an_engine_leaves_the_route_and_everybody_says_so_before_it_stops(scene: Scene) -> None:
    await scene.lives(5)
    await scene.lives(20)
    scene.clock.advance(10)
    scene.says()
    await scene.world.rounds(scene.model, count=1)  # the gateway has not applied it yet
    assert (scene.addresses, scene.world.cluster.stopped) == ([], [])
    scene.world.registry.applied = scene.world.registry.revision
    await scene.world.rounds(scene.model, count=2)  # it has, but has not said since that nothing is left
    assert scene.world.cluster.stopped == []
    await scene.lives(2)
    assert len(scene.world.cluster.stopped) == 1


async def test_a_gateway_that_is_frozen_holds_up_rest_for_six_seconds(scene: Scene) -> None:
    beats = 0
    await scene.lives(5)
    while scene.addresses:
        beats += 1
        scene.book.hear(GatewayLoad(id="frozen", sequence=beats))
        await scene.lives(1)
    waited_s = 0
    while not scene.world.cluster.stopped:
        waited_s += 1
        assert waited_s < 60
        await scene.lives(1)
    assert waited_s in (EXPIRY_S, EXPIRY_S + 1)


async def test_a_request_that_comes_while_it_drains_gets_the_warm_engine_back(scene: Scene) -> None:
    await scene.lives(5)
    (address,) = scene.addresses
    await scene.lives(20)
    scene.clock.advance(10)
    scene.says()
    await scene.world.rounds(scene.model, count=1)
    assert scene.addresses == []
    scene.due.clear()
    scene.says(held=1)
    assert len(scene.due) == 1, "a round is due at once"
    status = await scene.lives(1, held=1)
    assert (scene.addresses, scene.world.cluster.stopped, status.ready) == ([address], [], True)


async def test_a_wish_starts_an_engine_before_the_next_round_and_the_round_agrees(scene: Scene) -> None:
    await at_rest(scene)
    scene.clock.advance(1)
    scene.says(held=1)
    assert scene.woken == [(TINY, 1)]
    status = (await scene.world.rounds(scene.model, count=1))[TINY]
    assert len(scene.world.cluster.running) == 1
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert ready.holds
    assert ready.reason is Reason.SCALED_TO_ZERO
    assert ready.message.startswith("Requests wait for an engine that is being started.")
    assert not status.settled
    status = await scene.lives(3, in_flight=1)
    assert (status.settled, len(scene.addresses)) == (True, 1)
    assert status.scaling is not None
    assert status.scaling.reason == "Load"


async def test_a_wish_is_measured_from_its_request_to_the_call_and_to_the_answer(scene: Scene) -> None:
    await at_rest(scene)
    scene.says(held=1, oldest_wait_s=0.5)
    scene.clock.advance(0.25)
    scene.told[0]()
    assert (scene.number("wish_to_scale_seconds_count"), scene.number("wish_to_scale_seconds_sum")) == (1, 0.75)
    assert (scene.number("engines_wanted", model="tiny"), scene.number("engines_ready", model="tiny")) == (0, 0)
    await scene.lives(3, in_flight=1)
    assert (scene.number("engines_wanted", model="tiny"), scene.number("engines_ready", model="tiny")) == (1, 1)
    assert scene.number("wish_to_scale_seconds_count") == 1, "the rounds say it no second time"
    assert scene.number("wish_to_ready_seconds_count") == 1
    assert (scene.number("wish_to_ready_seconds_sum") or 0) > 1
    assert scene.number("scalings_total", direction="up", reason="Load") == 1
    assert scene.number("scalings_total", direction="down", reason="Idle") == 1


async def test_a_wish_whose_call_failed_is_measured_when_a_round_has_started_the_engine(scene: Scene) -> None:
    await at_rest(scene)
    scene.says(held=1)
    await scene.lives(1, held=1)
    await scene.lives(1, held=1)
    assert (scene.number("wish_to_scale_seconds_count"), scene.number("wish_to_scale_seconds_sum")) == (1, 2)


async def test_what_nobody_wished_for_is_no_wish(scene: Scene) -> None:
    await scene.lives(5)
    assert scene.number("scalings_total", direction="up", reason="FirstStart") == 1
    assert (scene.number("wish_to_scale_seconds_count"), scene.number("wish_to_ready_seconds_count")) == (0, 0)


async def test_models_are_counted_of_which_not_all_gateways_have_told(scene: Scene) -> None:
    await scene.lives(5)
    assert scene.number("scaling_unknown") == 0
    scene.book.lose()
    await scene.world.rounds(scene.model, count=1)
    assert scene.number("scaling_unknown") == 1
    await scene.world.rounds(count=1)
    assert (scene.number("scaling_unknown"), scene.number("engines_wanted", model="tiny")) == (0, None)


async def test_a_record_of_other_models_costs_a_model_at_rest_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(scene)
    looked = Mock(wraps=scene.book.of)
    monkeypatch.setattr(scene.book, "of", looked)
    scene.says()
    looked.assert_not_called()
    scene.autoscaler.heard({TINY})
    looked.assert_called_once()


@pytest.mark.parametrize(
    ("rests", "scaling", "looks"),
    [
        pytest.param(False, {}, 3, id="it runs"),
        pytest.param(True, {}, 0, id="it rests"),
        pytest.param(True, {"schedules": [{"cron": "* 6 * * *", "min": 1}]}, 3, id="it rests until its time"),
    ],
)
async def test_the_clock_alone_costs_a_model_at_rest_nothing(
    rests: bool, scaling: dict[str, Any], looks: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.model = scene.world.model(scaling={**FROM_ZERO, **scaling})
    await (at_rest(scene) if rests else scene.lives(5, in_flight=1))
    assert await looks_of(scene, 3, monkeypatch) == looks


async def looks_of(
    scene: Scene, ticks: int, monkeypatch: pytest.MonkeyPatch, *, away: bool = False, **demand: Any
) -> int:
    """Let the clock tick so often, once a second, and a gateway say so; return how often the model was looked at.

    `away`: nobody can be heard meanwhile.
    """
    looked, left, sleep = Mock(wraps=scene.book.of), ticks, asyncio.sleep

    async def ticked(seconds: float) -> None:
        nonlocal left
        if seconds > 0:
            left -= 1
            if left < 0:
                raise asyncio.CancelledError
            scene.clock.advance(1)
            scene.book.lose() if away else scene.says(**demand)
        await sleep(0)

    with monkeypatch.context() as patch:
        patch.setattr(scene.book, "of", looked)
        patch.setattr(asyncio, "sleep", ticked)
        with pytest.raises(asyncio.CancelledError):
            await scene.autoscaler._tick()
    return looked.call_count


@pytest.mark.parametrize(("idle_after", "looks"), [("10m", 2), ("2m", 5), ("10s", 10)])
async def test_a_model_that_nobody_asks_is_looked_at_more_seldom(
    idle_after: str, looks: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.model = scene.world.model(scaling={**FROM_ZERO, "minReplicas": 1, "idleAfter": idle_after})
    await scene.lives(5)
    assert await looks_of(scene, 10, monkeypatch) == looks
    assert await looks_of(scene, 10, monkeypatch, in_flight=1) == 10
    assert await looks_of(scene, 10, monkeypatch, idle_s=1) in (looks, looks + 1), "who was asked lately is still named"


async def test_a_moment_in_which_not_all_is_known_is_noticed_of_models_that_nobody_asks_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.model = scene.world.model(scaling={**FROM_ZERO, "idleAfter": "10m"})
    await scene.lives(5)
    assert await looks_of(scene, 593, monkeypatch) < 200
    assert await looks_of(scene, 1, monkeypatch, away=True) == 1
    await scene.lives(595)
    assert scene.addresses != [], "there may have been requests"
    await scene.lives(10)
    assert scene.addresses == []


@pytest.mark.parametrize("rests", [False, True])
async def test_rounds_in_which_nothing_changes_make_no_status_and_no_route_anew(
    scene: Scene, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (at_rest(scene) if rests else scene.lives(5, in_flight=1))
    before, route = scene.world.statuses[TINY], scene.route
    judged, made = Mock(wraps=status._judged), Mock(wraps=known_routes.make_route)
    monkeypatch.setattr(status, "_judged", judged)
    monkeypatch.setattr(known_routes, "make_route", made)
    await scene.lives(3, **({} if rests else {"in_flight": 1}))
    assert (judged.call_count, made.call_count) == (0, 0)
    assert scene.world.statuses[TINY] is before
    assert scene.route is route


async def test_a_call_keeps_it_awake_until_then(scene: Scene) -> None:
    await at_rest(scene)
    scene.book.awake_until = {TINY: 100.0}
    status = await scene.lives(200)
    assert status.scaling is not None
    assert (status.scaling.desired, status.scaling.reason) == (1, "Woken")
    scene.book.awake_until = {}
    assert (await scene.lives(70)).wanted_replicas == 0


async def test_a_schedule_wakes_a_model_at_rest_and_says_so(scene: Scene) -> None:
    await at_rest(scene)
    night = {"cron": "* 0-5 * * *", "min": 2}  # it is 0:00
    scene.model = scene.world.model(scaling={**FROM_ZERO, "schedules": [night]})
    status = await scene.lives(1)
    assert status.scaling is not None
    assert (status.scaling.desired, status.scaling.reason) == (2, "Schedule")


async def test_a_schedule_that_asks_for_fewer_than_the_least_changes_nothing(scene: Scene) -> None:
    night = {"cron": "* 0-5 * * *", "min": 1}
    scene.model = scene.world.model(scaling={"minReplicas": 2, "maxReplicas": 3, "schedules": [night]})
    status = await scene.lives(1)
    assert status.scaling is not None
    assert (status.scaling.desired, status.scaling.reason) == (2, "Minimum")


async def test_an_edit_of_a_model_at_rest_proves_itself_first(scene: Scene) -> None:
    await at_rest(scene)
    scene.model = scene.world.model(scaling=FROM_ZERO, engine={"cpu": {"maxBatchSize": 2}})
    scene.nobody_answers()
    status = await scene.lives(3)
    assert status.scaling is not None
    assert (status.ready, status.scaling.desired, status.scaling.reason) == (False, 1, "FirstStart")
    assert scene.route.wakes, "since one of the spec before has answered: requests wait for it"
    scene.world.willing.gone = set()
    assert (await scene.lives(4)).ready


async def test_a_registry_that_is_slow_to_say_whether_it_has_the_tokenizer_starts_no_engine(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, has = asyncio.Event(), scene.world.registry.has

    async def slow(digest: Digest) -> bool:
        await asked.wait()
        return await has(digest)

    background = Background(patience_s=0.01)
    scene.world.reconciler = Reconciler(scene.world.ports, retry_s=0, background=background)
    await at_rest(scene)
    monkeypatch.setattr(scene.world.registry, "has", slow)
    for takeover in (False, True):
        if takeover:
            scene.begins_anew(background)
        status = await scene.lives(3)
        assert (status.ready, status.wanted_replicas, scene.world.cluster.running) == (True, 0, {})
    scene.world.registry.stored.clear()
    asked.set()
    await scene.lives(1)
    assert scene.world.registry.stored == {scene.world.registry.tokenizer()}, "it is stored again"


async def test_an_edit_that_changes_no_engine_leaves_a_model_at_rest_where_it_can_be_woken(scene: Scene) -> None:
    await at_rest(scene)
    edited = {"servedNames": ["tiny", "other"], "default": True, "routing": {"timeout": "1m"}}
    scene.model = scene.world.model(scaling=FROM_ZERO | {"hold": 8}, progressDeadline="1m", **edited)
    status = await scene.lives(2)
    assert (status.ready, status.wanted_replicas) == (True, 0)
    assert (scene.route.wakes, scene.route.served_names) == (True, ("tiny", "other"))


async def test_an_engine_that_ends_while_it_starts_makes_requests_fail_with_a_reason(scene: Scene) -> None:
    await at_rest(scene)
    scene.nobody_answers()
    scene.says(held=1)
    await scene.lives(1, held=1)
    ((name, engine),) = scene.world.cluster.running.items()
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="ended with status 1.")
    status = await scene.lives(2, held=1)
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.holds, ready.reason) == (False, Reason.ENGINE_EXITED)
    assert scene.route.start_failed == "its status says why."
    scene.world.cluster.running[name] = replace(engine, incarnation=2)
    assert scene.route.start_failed is not None, "it is tried again and again, and has not answered"
    scene.world.willing.gone = set()
    assert (await scene.lives(3, held=1)).ready
    assert (scene.route.start_failed, scene.route.wakes) == (None, True)


async def test_where_somebody_else_decides_requests_wait_for_that_and_start_nothing(scene: Scene) -> None:
    assert (await followed(scene, 1)).ready
    status = await followed(scene, 0)
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.holds, ready.reason, status.replicas) == (True, Reason.SCALED_TO_ZERO, 0)
    assert "waits until the autoscaler of the model has started one" in ready.message
    assert (scene.route.wakes, scene.route.engines_wanted, scene.route.hold_max) == (True, True, 9)
    assert scene.route.start_s is not None
    status = await scene.lives(20, held=5)
    assert (scene.world.cluster.running, scene.woken) == ({}, [])
    assert status.scaling is not None
    assert (status.scaling.desired, status.scaling.reason) == (0, "Replicas")
    scene.nobody_answers()
    await followed(scene, 1)
    assert (len(scene.world.cluster.running), scene.addresses, scene.route.wakes) == (1, [], True)
    scene.world.willing.gone = set()
    assert (await scene.lives(3, held=5)).ready_replicas == 1


async def test_where_somebody_else_decides_an_engine_that_fails_makes_requests_fail(scene: Scene) -> None:
    await followed(scene, 1)
    await followed(scene, 0)
    await followed(scene, 0, engine={"cpu": {"maxBatchSize": 2}})
    assert scene.route.wakes, "nobody else would start an engine to prove an edit"
    scene.nobody_answers()
    await followed(scene, 1, engine={"cpu": {"maxBatchSize": 2}})
    ((name, engine),) = scene.world.cluster.running.items()
    scene.world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="ended with status 1.")
    assert not (await scene.lives(2, held=1)).ready
    assert scene.route.start_failed == "its status says why."


async def test_a_model_that_has_never_answered_and_that_nobody_starts_has_no_replicas(scene: Scene) -> None:
    ready = (await followed(scene, 0)).condition(ConditionType.READY)
    assert ready is not None
    assert (ready.holds, ready.reason) == (False, Reason.NO_REPLICAS)


async def test_a_tokenizer_that_the_registry_has_lost_wakes_a_model_that_has_it(scene: Scene) -> None:
    await at_rest(scene)
    scene.world.registry.stored.clear()
    scene.world.registry.full = True
    status = await scene.lives(2)
    assert status.scaling is not None
    assert status.scaling.desired == 1


async def test_the_emptiest_engine_goes_first(scene: Scene) -> None:
    scene.model = scene.world.model(scaling={"minReplicas": 2, "maxReplicas": 2})
    await scene.lives(3, in_flight=1)
    one, other = scene.addresses
    scene.says(in_flight=4, taken={one: 1, other: 3})
    scene.model = scene.world.model(scaling={"minReplicas": 1, "maxReplicas": 1})
    await scene.world.rounds(scene.model, count=1)
    assert scene.addresses == [other]
