"""Rounds of models that share a pool, with a gateway that says what it is told to say."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.names import ModelId, PoolId
from conch_contracts.records import GatewayLoad, Route
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.engine_pools.residents import Residents
from conch_operator.metrics import PoolMetrics
from conch_operator.reconcile.status import ModelStatus
from conch_operator.scaling.demand import DemandBook
from conch_operator.state import ClusterEngine, DesiredModel, EnginePhase
from testkit.builders.model_deployments import model_deployment
from testkit.clock import FakeClock
from testkit.rounds import World, world_of

POOL = PoolId("local/small")


def pool_of(memory: str = "100Mi", **fields: Any) -> EnginePoolSpec:
    return EnginePoolSpec.model_validate({"memory": memory, **fields})


@dataclass
class Scene:
    """A world whose one gateway says what it is told to say, and whose stopped engines are gone after a round."""

    world: World
    clock: FakeClock
    book: DemandBook
    residents: Residents
    measured: CollectorRegistry
    due: list[None]
    """One for each time that a round was said to be due."""
    models: dict[str, DesiredModel] = field(default_factory=dict)
    demand: dict[str, dict[str, Any]] = field(default_factory=dict)
    sequence: int = 0

    def add(self, name: str, **placement: Any) -> None:
        spec = {"kind": "Embedding", "placement": {"pool": "small", **placement}}
        self.models[name] = DesiredModel(model_deployment(name, **spec), self.world.folder, 1)

    def says(self) -> None:
        self.sequence += 1
        models = {f"local/{name}": demand for name, demand in self.demand.items()}
        said = {"id": "g", "sequence": self.sequence, "revision": self.world.registry.applied, "models": models}
        load = GatewayLoad.model_validate(said)
        self.book.hear(load)
        self.book.away = False
        self.residents.heard(load.models)

    async def lives(self, seconds: int, **demand: dict[str, Any]) -> dict[str, ModelStatus]:
        """Let time pass in which the gateway says the same all the time, applies every route, and rounds go on."""
        self.demand = demand
        for _ in range(seconds):
            self.clock.advance(1)
            self.says()
            self.world.registry.applied = self.world.registry.revision
            await self.world.rounds(*self.models.values(), count=1)
            running = self.world.cluster.running
            self.world.cluster.running = {
                name: engine for name, engine in running.items() if engine.phase is not EnginePhase.STOPPING
            }
        return {name: self.world.statuses[ModelId(f"local/{name}")] for name in self.models}

    def engine(self, name: str) -> ClusterEngine | None:
        return next((one for one in self.world.cluster.running.values() if one.model == f"local/{name}"), None)

    def change(self, name: str, **fields: Any) -> None:
        engine = self.engine(name)
        assert engine is not None
        self.world.cluster.running[engine.name] = replace(engine, **fields)

    def route(self, name: str) -> Route:
        return self.world.registry.routes[ModelId(f"local/{name}")][0]

    def counted(self, name: str, **labels: str) -> float | None:
        """Return what the pool's metric says."""
        return self.measured.get_sample_value(f"conch_operator_pool_{name}", {"pool": POOL, **labels})

    @property
    def there(self) -> set[str]:
        return {engine.model.partition("/")[2] for engine in self.world.cluster.running.values()}


@asynccontextmanager
async def pool_scene(folder: Path) -> AsyncIterator[Scene]:
    clock = FakeClock()
    book = DemandBook(clock)
    measured = CollectorRegistry()
    due = list[None]()
    residents = Residents(book, lambda: due.append(None), PoolMetrics(measured), unix_time=lambda: 1.0)
    async with world_of(folder, residents) as world:
        world.pools = {POOL: pool_of()}
        yield Scene(world, clock, book, residents, measured, due)


async def two_in_the_room_of_one(scene: Scene) -> None:
    scene.add("a", sizeHint="60Mi")
    scene.add("b", sizeHint="60Mi")
    statuses = await scene.lives(25)
    assert all(status.ready for status in statuses.values())


def ready(status: ModelStatus) -> tuple[str, Reason]:
    found = status.condition(ConditionType.READY)
    assert found is not None
    return str(found.status), found.reason


def message(status: ModelStatus) -> str:
    found = status.condition(ConditionType.READY)
    assert found is not None
    return found.message
