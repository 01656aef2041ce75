"""Rounds of the operator's loop against a cluster, a registry and engines that do as they are told."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.conditions import ConditionStatus, ConditionType, Reason
from conch_contracts.names import Digest, EngineAddress, ModelId, ServedName
from conch_contracts.records import GatewayBeat, Heartbeat, Pool
from conch_kit.bundles.archive import BundleError
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.snapshot import Snapshot
from conch_operator.local.model_folders import ModelFolders
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.probe.prober import Cadence, NoAnswer, Prober, Target
from conch_operator.reconcile.plan import Plan, plan_processes, plan_workloads
from conch_operator.reconcile.reconciler import Ports, Reconciler
from conch_operator.reconcile.status import Statuses
from conch_operator.state import (
    Acted,
    ClusterEngine,
    Desired,
    DesiredModel,
    EngineName,
    EnginePhase,
    RoutedModel,
    Unreadable,
)
from testkit.builders.model_deployments import model_deployment


@dataclass
class FakeCluster:
    running: dict[EngineName, ClusterEngine] = field(default_factory=dict)
    stopped: list[EngineName] = field(default_factory=list)
    serving: frozenset[EngineName] = frozenset()
    tokenizers: dict[EngineName, Digest] = field(default_factory=dict)

    async def engines(self) -> tuple[ClusterEngine, ...]:
        return tuple(self.running.values())

    async def act(self, steps: Plan) -> Acted:
        for new in steps.start:
            address = EngineAddress(f"127.0.0.1:{9000 + len(self.running)}")
            running = EnginePhase.RUNNING
            engine = ClusterEngine(new.name, new.model, new.spec_hash, new.contract, running, address, 1)
            self.running[new.name] = engine
            self.tokenizers[new.name] = new.tokenizer
        for name in steps.restart:
            self.running[name] = replace(self.running[name], incarnation=self.running[name].incarnation + 1)
        for name in steps.stop:
            self.stopped.append(name)
            self.running[name] = replace(self.running[name], phase=EnginePhase.STOPPING)
        return Acted(specs=steps.specs)

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        self.serving = names


@dataclass
class FakeRegistry:
    """Publisher, bundles and reader in one; a gateway applies what is published when told to."""

    routes: dict[ModelId, RoutedModel] = field(default_factory=dict)
    revision: int = 0
    applied: int = 0
    down: bool = False
    answered: bool = True
    stored: set[Digest] = field(default_factory=set)
    full: bool = False
    slow: int = 0
    """So many answers come too late."""

    async def publish(self, models: Mapping[ModelId, RoutedModel]) -> int:
        self._answer()
        self.revision += dict(models) != self.routes
        self.routes = dict(models)
        return self.revision

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        return (GatewayBeat(id="g", sequence=1, revision=self.applied),)

    async def has(self, name: Digest) -> bool:
        self._answer()
        return name in self.stored

    def _answer(self) -> None:
        self.slow -= 1
        if self.down or self.slow >= 0:
            raise RegistryUnavailable("refused")

    async def put(self, name: Digest, data: bytes) -> None:
        if self.full:
            raise BundleError("the bundle is too large")
        self.stored.add(name)

    @property
    def snapshot(self) -> Snapshot:
        beat: Any = Heartbeat.model_validate({"url": "http://h:1", "sequence": 1})
        workers = {Pool.LLM: (beat,), Pool.TOKENIZER: (beat,)}
        routes = {model: route for model, (route, _) in self.routes.items()}
        engines = {model: engines for model, (_, engines) in self.routes.items()}
        return replace(Snapshot.EMPTY, workers=workers, routes=routes, engines=engines)

    def tokenizer(self, model: str = "local/tiny") -> Digest:
        return self.routes[ModelId(model)][0].tokenizer_digest

    def addresses(self, model: str = "local/tiny") -> list[str]:
        return [engine.grpc for engine in self.routes[ModelId(model)][1]]


@dataclass
class WillingEngines:
    """Answer, but for those at these addresses."""

    gone: set[str] = field(default_factory=set)

    async def probe(self, target: Target) -> None:
        await asyncio.sleep(0)
        if target.address in self.gone:
            raise NoAnswer(Reason.ENGINE_UNREACHABLE, "Nothing answers.")


class World:
    """Everything around one Reconciler."""

    def __init__(self, folder: Path, prober: Prober, willing: WillingEngines) -> None:
        self.willing = willing
        self.cluster = FakeCluster()
        self.registry = FakeRegistry()
        self.folder = folder
        registry, sources = self.registry, ModelFolders(CachingFolderReader())
        tokenizer_of = self.cluster.tokenizers.get
        self.ports = Ports(
            sources, self.cluster, plan_processes, registry, registry, registry, prober, tokenizer_of, lambda: 0.0
        )
        self.reconciler = Reconciler(self.ports, retry_s=0)
        self.statuses: Statuses = {}

    async def rounds(self, *models: DesiredModel, count: int = 6) -> Any:
        for _ in range(count):
            self.statuses = await self.reconciler.reconcile(Desired(models), self.statuses)
            for _ in range(5):
                await asyncio.sleep(0)
        return self.statuses

    def model(self, **spec: Any) -> DesiredModel:
        return DesiredModel(model_deployment(**spec), self.folder, 1)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    (folder / "config.json").write_text(json.dumps({"vocab_size": 1, "max_position_embeddings": 8}))
    (folder / "model.safetensors").write_bytes(b"")
    willing = WillingEngines()
    async with Prober(willing, lambda: None, Cadence(starting_s=0, serving_s=0)) as prober:
        yield World(tmp_path, prober, willing)


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
    world.reconciler = Reconciler(ports, retry_s=0)
    owner = DesiredModel(model_deployment("tiny", servedNames=["chat"]), world.folder, 1)
    waiting = DesiredModel(model_deployment("waiting", source={"path": "tiny"}, servedNames=["chat"]), world.folder, 2)
    assert (await world.rounds(owner, waiting))[owner.id].served_names == ("chat",)
    kept.down = down
    assert (await world.rounds(waiting))[waiting.id].served_names == ()
    kept.down = False
    await world.rounds(waiting, count=1)
    world.reconciler = Reconciler(ports, retry_s=0)
    assert (await world.rounds(waiting))[waiting.id].served_names == ()
    again = replace(owner, created=9)
    assert (await world.rounds(again, waiting))[again.id].served_names == ("chat",)
    kept.held.clear()
    assert (await world.rounds(again, waiting))[again.id].served_names == ("chat",)
    await world.rounds(waiting)
    kept.held.clear()
    assert (await world.rounds(waiting))[waiting.id].served_names == ("chat",)
