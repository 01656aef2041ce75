"""Rounds of the operator's loop against a cluster, a registry and engines that do as they are told."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping, Set
from dataclasses import replace
from pathlib import Path

import pytest

from conch_contracts.conditions import ConditionStatus, ConditionType, Reason
from conch_contracts.names import ModelId, ServedName
from conch_kit.redis.errors import RegistryUnavailable
from conch_operator.local.model_folders import ModelFolders
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.reconcile.plan import Acted, Plan, plan_workloads
from conch_operator.reconcile.probe_targets import key_of
from conch_operator.reconcile.reconciler import Reconciler
from conch_operator.state import (
    Desired,
    DesiredModel,
    EnginePhase,
    Observed,
    ProbeVerdict,
    Unreadable,
)
from testkit.builders.model_deployments import model_deployment
from testkit.rounds import World, world_of
from testkit.waiting import eventually

FIRST = "127.0.0.1:9000"
"""Where the first engine is that a world starts."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(tmp_path) as made:
        yield made


async def test_a_model_becomes_ready(world: World) -> None:
    model = world.model(replicas=2)
    statuses = await world.rounds(model)
    assert statuses[model.id].ready
    assert statuses[model.id].ready_replicas == 2
    assert len(world.registry.addresses()) == 2
    assert world.registry.stored == {statuses[model.id].tokenizer_digest}


async def test_a_model_whose_spec_cannot_be_read_any_more_is_served_as_before(world: World) -> None:
    model = world.model(replicas=2)
    await world.rounds(model)
    before, running = dict(world.registry.routes), dict(world.cluster.running)
    reconciler = Reconciler(replace(world.ports, plan=plan_workloads))
    unreadable = {model.id: Unreadable("spec.path: remove the slash", 2)}
    for _ in range(3):
        statuses = await reconciler.reconcile(Desired((), unreadable), {})
    assert (statuses[model.id].ready, statuses[model.id].ready_replicas) == (True, 2)
    assert (world.registry.routes, world.cluster.running) == (before, running)
    assert world.cluster.serving == running.keys()


async def test_rounds_without_change_change_nothing(world: World) -> None:
    await world.rounds(world.model())
    revision, running = world.registry.revision, dict(world.cluster.running)
    await world.rounds(world.model(), count=10)
    assert (world.registry.revision, world.cluster.running) == (revision, running)


async def test_an_engine_is_withdrawn_and_seen_so_before_it_stops(world: World) -> None:
    await world.rounds(world.model(replicas=2))
    await world.rounds(world.model(replicas=1))
    assert len(world.registry.addresses()) == 1
    assert world.cluster.stopped == []
    world.registry.applied = world.registry.revision
    await world.rounds(world.model(replicas=1))
    assert len(world.cluster.stopped) == 1


async def test_an_edit_replaces_an_engine_without_a_gap(world: World) -> None:
    await world.rounds(world.model())
    (old,) = world.registry.addresses()
    edited = world.model(engine={"cpu": {"maxBatchSize": 2}})
    await world.rounds(edited)
    (new,) = world.registry.addresses()
    assert new != old
    assert world.cluster.stopped == []
    world.registry.applied = world.registry.revision
    await world.rounds(edited)
    assert len(world.cluster.stopped) == 1


async def test_an_edit_of_the_source_keeps_the_old_tokenizer_until_an_engine_of_the_new_files_answers(
    world: World,
) -> None:
    await world.rounds(world.model())
    (old,) = world.registry.addresses()
    digest = world.registry.tokenizer()
    (world.folder / "tiny").rename(world.folder / "other")
    (world.folder / "other" / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"b": 0}}}))
    edited = world.model(source={"path": "other"})
    await world.rounds(edited, count=1)
    assert (world.registry.addresses(), world.registry.tokenizer()) == ([old], digest)
    await world.rounds(edited)
    (new,) = world.registry.addresses()
    assert new != old
    assert world.registry.tokenizer() != digest


async def test_a_tokenizer_that_cannot_be_stored_leaves_the_old_one_and_its_engine_in_use(world: World) -> None:
    await world.rounds(world.model())
    before = dict(world.registry.routes)
    world.registry.full = True
    (world.folder / "tiny").rename(world.folder / "other")
    (world.folder / "other" / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"b": 0}}}))
    edited = world.model(source={"path": "other"})
    world.registry.applied = 99
    tokenizer = (await world.rounds(edited))[edited.id].condition(ConditionType.TOKENIZER_READY)
    assert (tokenizer.status, tokenizer.reason) == (ConditionStatus.FALSE, Reason.TOKENIZER_NOT_STORED)
    assert "the bundle is too large. It is tried again. Until then the model is served as before." in tokenizer.message
    assert (world.registry.routes, world.cluster.stopped) == (before, [])
    world.registry.full = False
    assert (await world.rounds(edited))[edited.id].ready
    assert world.registry.tokenizer() in world.registry.stored
    assert len(world.cluster.stopped) == 1


async def test_a_model_whose_tokenizer_was_never_stored_has_no_route(world: World) -> None:
    world.registry.full = True
    model = world.model()
    tokenizer = (await world.rounds(model))[model.id].condition(ConditionType.TOKENIZER_READY)
    assert (tokenizer.reason, world.registry.routes) == (Reason.TOKENIZER_NOT_STORED, {})
    assert tokenizer.message.endswith("It is tried again.")


@pytest.mark.parametrize(("made_at", "serves"), [(50, False), (150, True)])
async def test_an_engine_that_leaves_serves_no_later_object_of_its_models_name(
    world: World, made_at: int, serves: bool
) -> None:
    await world.rounds(world.model(source={"path": "tiny"}))
    ((name, engine),) = world.cluster.running.items()
    world.cluster.running[name] = replace(engine, phase=EnginePhase.LEAVING, created=made_at)
    again = replace(world.model(source={"path": "nope"}), created=100)
    (status,) = (await world.rounds(again, count=1)).values()
    assert (status.ready, world.registry.addresses() != []) == (serves, serves)


async def test_an_engine_of_someone_else_serves_until_the_one_that_is_named_instead_answers(world: World) -> None:
    def model(port: int) -> DesiredModel:
        external = {"grpc": f"10.0.0.1:{port}", "dialect": "tokens", "modelName": "m"}
        return world.model(engine={"external": external})

    world.willing.gone = {"10.0.0.1:2"}
    await world.rounds(model(1))
    (status,) = (await world.rounds(model(2))).values()
    assert world.registry.addresses() == ["10.0.0.1:1"]
    assert (status.ready, status.rolled_out, status.ready_replicas) == (True, False, 1)
    assert status.condition(ConditionType.READY).message.startswith("Serves by engines of an older spec: Nothing ans")
    world.willing.gone = {"10.0.0.1:1", "10.0.0.1:2"}
    (status,) = (await world.rounds(model(2))).values()
    assert (world.registry.addresses(), status.ready) == ([], False)
    world.willing.gone = {"10.0.0.1:1"}
    (status,) = (await world.rounds(model(2))).values()
    assert (world.registry.addresses(), status.settled) == (["10.0.0.1:2"], True)


async def test_a_removed_model_leaves_no_route(world: World) -> None:
    await world.rounds(world.model())
    await world.rounds()
    assert world.registry.routes == {}


async def test_a_model_is_served_as_before_while_its_folder_is_away(world: World) -> None:
    model = world.model()
    await world.rounds(model)
    before = dict(world.registry.routes)
    (world.folder / "tiny").rename(world.folder / "away")
    statuses = await world.rounds(model)
    ready = statuses[model.id].condition(ConditionType.READY)
    assert ready.reason is Reason.FOLDER_MISSING
    assert ready.message.endswith("Until then the model is served as before.")
    assert world.registry.routes == before
    (world.folder / "away").rename(world.folder / "tiny")
    assert (await world.rounds(model))[model.id].ready


async def test_who_finds_the_registry_empty_and_no_folder_lists_the_engines_that_answer(world: World) -> None:
    model = world.model()
    await world.rounds(model)
    engines = [one.grpc for one in world.registry.routes[model.id][1]]
    (world.folder / "tiny").rename(world.folder / "away")
    world.registry.routes = {}
    unread = replace(world.ports, sources=ModelFolders(CachingFolderReader()))
    world.reconciler = Reconciler(unread, retry_s=0, patience_s=0)
    await world.rounds(model)
    assert world.registry.routes == {}
    assert [one.grpc for one in world.registry.unknown[model.id]] == engines
    assert len(world.cluster.serving) == len(engines), "gateways that know the route use them"


async def test_a_model_that_never_had_a_folder_has_no_route(world: World) -> None:
    (world.folder / "tiny").rename(world.folder / "away")
    await world.rounds(world.model())
    assert world.registry.routes == {}


async def test_while_the_registry_is_down_engines_run_on_and_the_status_says_so(world: World) -> None:
    model = world.model()
    await world.rounds(model)
    world.registry.down = True
    statuses = await world.rounds(model)
    ready = statuses[model.id].condition(ConditionType.READY)
    assert ready.reason is Reason.REGISTRY_UNAVAILABLE
    assert world.cluster.stopped == []
    world.registry.down = False
    world.registry.stored.clear()
    statuses = await world.rounds(model, count=1)
    assert statuses[model.id].ready
    assert len(world.registry.stored) == 1


async def test_nothing_is_published_before_the_registry_was_read(world: World) -> None:
    model = world.model()
    world.registry.answered = False
    ready = (await world.rounds(model))[model.id].condition(ConditionType.READY)
    assert ready.reason is Reason.REGISTRY_UNAVAILABLE
    assert "it has not been read yet" in ready.message
    assert (world.registry.revision, world.registry.routes, world.registry.stored) == (0, {}, set())
    world.registry.answered = True
    assert (await world.rounds(model))[model.id].ready


async def test_a_model_is_ready_while_the_registry_that_holds_its_route_fails_for_a_moment(world: World) -> None:
    now_s = 0.0
    world.reconciler = Reconciler(replace(world.ports, clock=lambda: now_s), retry_s=0, patience_s=5)
    model, other = world.model(), DesiredModel(model_deployment("other", source={"path": "tiny"}), world.folder, 1)
    await world.rounds(model)
    world.registry.down, now_s = True, 100.0  # a round of many models takes long: what counts is the failures
    assert (await world.rounds(model, other, count=1))[model.id].ready
    now_s = 104.9
    statuses = await world.rounds(model, other)
    assert statuses[model.id].ready
    assert not statuses[other.id].ready  # its route was never written
    world.registry.down = False
    await world.rounds(model, other)
    world.registry.down, now_s = True, 106.0
    assert (await world.rounds(model, other))[model.id].ready, "since it has been written meanwhile"
    now_s = 111.0
    told = (await world.rounds(model, other))[model.id].condition(ConditionType.READY)
    assert told.reason is Reason.REGISTRY_UNAVAILABLE


@pytest.mark.parametrize(("late", "ready"), [(1, True), (2, False)])
async def test_a_registry_that_is_slow_once_makes_no_model_unready(world: World, late: int, ready: bool) -> None:
    model = world.model()
    await world.rounds(model)
    world.registry.slow = late
    assert (await world.rounds(model, count=1))[model.id].ready is ready


async def test_a_crashed_engine_is_withdrawn_until_it_answers_again(world: World) -> None:
    await world.rounds(world.model())
    ((name, engine),) = world.cluster.running.items()
    world.cluster.running[name] = replace(engine, phase=EnginePhase.EXITED, detail="was killed by SIGKILL.")
    await world.rounds(world.model(), count=1)
    assert world.registry.addresses() == []
    world.cluster.running[name] = replace(engine, incarnation=2)
    await world.rounds(world.model())
    assert world.registry.addresses() == [engine.grpc]


async def test_an_engine_that_answers_between_two_rounds_has_its_route_before_the_next(world: World) -> None:
    world.willing.gone.add(FIRST)
    await world.rounds(world.model())
    assert world.registry.addresses() == []
    world.willing.gone.clear()
    await eventually(lambda: world.registry.addresses() == [FIRST], "the route to the engine")


async def test_an_engine_that_answers_before_its_tokenizer_is_known_has_its_route_as_soon_as_that_is(
    world: World,
) -> None:
    world.willing.gone.add(FIRST)
    await world.rounds(world.model())
    ((name, engine),) = world.cluster.running.items()
    tokenizer = world.cluster.tokenizers.pop(name)
    world.willing.gone.clear()
    await eventually(
        lambda: world.ports.prober.verdict(key_of(engine)).verdict is ProbeVerdict.READY, "the engine's answer"
    )
    assert world.registry.addresses() == []
    world.cluster.tokenizers[name] = tokenizer
    world.reconciler.look_for_answers()
    await eventually(lambda: world.registry.addresses() == [FIRST], "the route to the engine")


async def test_an_engine_that_answers_while_a_round_acts_is_in_the_routes_that_it_writes(world: World) -> None:
    world.willing.gone.add(FIRST)
    await world.rounds(world.model())
    act, (engine,) = world.cluster.act, world.cluster.running.values()

    async def acts_slowly(steps: Plan) -> Acted:
        world.willing.gone.clear()
        await eventually(
            lambda: world.ports.prober.verdict(key_of(engine)).verdict is ProbeVerdict.READY, "the engine's answer"
        )
        world.registry.written.clear()
        return await act(steps)

    world.cluster.act = acts_slowly  # type: ignore[method-assign]
    await world.reconciler.reconcile(Desired((world.model(),)), world.statuses)
    assert [[one.grpc for one in routed[ModelId("local/tiny")][1]] for routed in world.registry.written] == [[FIRST]]


async def test_a_registry_that_fails_as_an_engine_answers_is_asked_again_by_the_next_round(world: World) -> None:
    model = world.model()
    world.willing.gone.add(FIRST)
    await world.rounds(model)
    (engine,) = world.cluster.running.values()
    world.registry.down = True
    world.willing.gone.clear()
    await eventually(
        lambda: world.ports.prober.verdict(key_of(engine)).verdict is ProbeVerdict.READY, "the engine's answer"
    )
    world.registry.down = False
    assert (await world.rounds(model))[model.id].ready
    assert world.registry.addresses() == [FIRST]


class KeptNames:
    """Reservations that end when a test says so; they outlive the operator."""

    def __init__(self) -> None:
        self.held: dict[ServedName, ModelId] = {}
        self.down = False

    async def renew(
        self, gone: Mapping[ServedName, ModelId], back: Mapping[ModelId, Set[ServedName]]
    ) -> Mapping[ServedName, ModelId]:
        if self.down:
            raise RegistryUnavailable("refused")
        self.held = {**gone, **self.held}
        return dict(self.held)


@pytest.mark.parametrize("down", [False, True])
async def test_a_deleted_models_names_wait_for_it_and_no_other_inherits_them(world: World, *, down: bool) -> None:
    ports = replace(world.ports, reservations=(kept := KeptNames()))
    world.reconciler = Reconciler(ports, retry_s=0, patience_s=0)
    owner = DesiredModel(model_deployment("tiny", servedNames=["chat"]), world.folder, 1)
    waiting = DesiredModel(model_deployment("waiting", source={"path": "tiny"}, servedNames=["chat"]), world.folder, 2)
    assert (await world.rounds(owner, waiting))[owner.id].served_names == ("chat",)
    kept.down = down
    assert (await world.rounds(waiting))[waiting.id].served_names == ()
    kept.down = False
    await world.rounds(waiting, count=1)
    world.reconciler = Reconciler(ports, retry_s=0, patience_s=0)
    assert (await world.rounds(waiting))[waiting.id].served_names == ()
    again = replace(owner, created=9)
    assert (await world.rounds(again, waiting))[again.id].served_names == ("chat",)
    kept.held.clear()
    assert (await world.rounds(again, waiting))[again.id].served_names == ("chat",)
    await world.rounds(waiting)
    kept.held.clear()
    assert (await world.rounds(waiting))[waiting.id].served_names == ("chat",)


async def test_the_loop_goes_on_while_a_plan_is_worked_out(world: World) -> None:
    gone_on, loop = threading.Event(), asyncio.get_running_loop()

    def plan(desired: Desired, observed: Observed) -> Plan:
        loop.call_soon_threadsafe(gone_on.set)
        assert gone_on.wait(30)
        return world.ports.plan(desired, observed)

    world.reconciler = Reconciler(replace(world.ports, plan=plan), retry_s=0)
    assert (await world.rounds(world.model()))[world.model().id].ready
