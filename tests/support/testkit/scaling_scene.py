"""Rounds of a model that scales, with a gateway that says what it is told to say."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from conch_contracts.names import ModelId
from conch_contracts.records import GatewayLoad, Route
from conch_operator.metrics import ScalingMetrics
from conch_operator.reconcile.calls_in_flight import AWAITED, Background
from conch_operator.reconcile.reconciler import Reconciler
from conch_operator.reconcile.status import ModelStatus
from conch_operator.scaling.autoscaler import Autoscaler
from conch_operator.scaling.demand import DemandBook
from conch_operator.state import DesiredModel, EnginePhase, Scaled
from testkit.clock import FakeClock
from testkit.rounds import World, world_of

TINY = ModelId("local/tiny")
FROM_ZERO = {"minReplicas": 0, "maxReplicas": 3, "idleAfter": "30s", "hold": 7}


@dataclass
class Scene:
    """A world with one model or more, whose one gateway says what it is told to say."""

    world: World
    clock: FakeClock
    book: DemandBook
    autoscaler: Autoscaler
    woken: list[tuple[ModelId, int]]
    due: list[None]
    """One for each time that a round was said to be due."""
    told: list[Callable[[], None]]
    """What to call when the cluster has been told of a wish."""
    measured: CollectorRegistry
    model: DesiredModel
    sequence: int = field(default=0)
    others: list[DesiredModel] = field(default_factory=list)
    asked: dict[ModelId, dict[str, Any]] = field(default_factory=dict)
    """What there is to do for the others."""

    def says(self, **demand: Any) -> None:
        self.sequence += 1
        models = self.asked | ({TINY: demand} if demand else {})
        record = {"id": "g", "sequence": self.sequence, "models": models}
        load = GatewayLoad.model_validate(record)
        self.book.hear(load)
        self.book.come_back()
        self.autoscaler.heard(load.models)

    async def lives(self, seconds: int, **demand: Any) -> ModelStatus:
        """Let time pass in which the gateway says the same all the time, applies every route, and rounds go on."""
        status: ModelStatus | None = None
        for _ in range(seconds):
            self.clock.advance(1)
            self.says(**demand)
            self.world.registry.applied = self.world.registry.revision
            status = (await self.world.rounds(self.model, *self.others, count=1))[TINY]
        assert status is not None
        return status

    def nobody_answers(self) -> None:
        """Have none of the engines answer that there may be."""
        self.world.willing.gone = {f"127.0.0.1:{port}" for port in range(9000, 9010)}

    def number(self, name: str, **labels: str) -> float | None:
        return self.measured.get_sample_value(f"conch_operator_{name}", labels)

    def begins_anew(self, background: Background = AWAITED) -> None:
        """Let an operator go on that knows nothing but what is there."""
        self.book = DemandBook(self.clock)
        self.autoscaler = Autoscaler(self.book, lambda: None, ScalingMetrics.on(CollectorRegistry()))
        ports = replace(self.world.ports, scaling=(self.autoscaler,))
        self.world.reconciler = Reconciler(ports, retry_s=0, background=background)

    @property
    def route(self) -> Route:
        return self.world.registry.routes[TINY][0]

    @property
    def addresses(self) -> list[str]:
        return self.world.registry.addresses()

    def ends(self) -> None:
        """Let engines that were stopped be gone."""
        running = self.world.cluster.running
        self.world.cluster.running = {
            name: engine for name, engine in running.items() if engine.phase is not EnginePhase.STOPPING
        }


@asynccontextmanager
async def scaling_scene(folder: Path, *, node_wait_s: float = 0.0) -> AsyncIterator[Scene]:
    clock, woken, told = FakeClock(), list[tuple[ModelId, int]](), list[Callable[[], None]]()
    due = list[None]()
    book, measured = DemandBook(clock), CollectorRegistry()

    def wake(model: ModelId, scaled: Scaled, done: Callable[[], None]) -> None:
        woken.append((model, scaled.engines))
        told.append(done)

    metrics = ScalingMetrics.on(measured)

    def changed() -> None:
        due.append(None)

    autoscaler = Autoscaler(book, changed, metrics, wake, unix_time=lambda: 1.0, node_wait_s=node_wait_s)
    async with world_of(folder, autoscaler) as world:
        yield Scene(world, clock, book, autoscaler, woken, due, told, measured, world.model(scaling=FROM_ZERO))


async def at_rest(scene: Scene) -> ModelStatus:
    await scene.lives(5)
    await scene.lives(70)
    scene.ends()
    return await scene.lives(2)


async def followed(scene: Scene, replicas: int, **spec: Any) -> ModelStatus:
    """Have somebody else set so many replicas, of a model whose requests wait for that, and let it settle."""
    scene.model = scene.world.model(replicas=replicas, routing={"hold": 9}, **spec)
    await scene.lives(3)
    scene.ends()
    return await scene.lives(2)
