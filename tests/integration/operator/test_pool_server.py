"""Models come and go in one real Triton server, and what happens to one happens to no other."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from conch_contracts.conditions import Reason
from conch_contracts.cpu_runtime import Quantization
from conch_contracts.dialects.encoder import LOGITS
from conch_contracts.names import Digest, ModelId, PoolId
from conch_contracts.records import Dialect
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.local.engines import EngineServer, LocalEngines
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import Supervisor
from conch_operator.local.tritonserver import find_triton
from conch_operator.probe.prober import Target
from conch_operator.probe.triton_request import TritonProbeClient
from conch_operator.reconcile.engine_steps import spec_hash
from conch_operator.reconcile.plan import Plan
from conch_operator.state import (
    ClusterEngine,
    EngineComponent,
    EngineContract,
    EngineName,
    EnginePhase,
    EngineRecipe,
)
from testkit.processes.conch_up import EXAMPLE
from testkit.waiting import eventually

POOL = PoolId("local/small")
SPEC = EnginePoolSpec.model_validate({"memory": "1Gi", "maxLoad": "20s"})
LATE_S = 40.0
"""How long after its time a load that hangs may be seen to fail, with the start of its server before it."""
FOLDER = EXAMPLE.parent / "tiny-reranker"


def component(name: str, folder: Path = FOLDER) -> EngineComponent:
    recipe = EngineRecipe(folder, "w", name, Quantization.NONE, 8, 0, output=LOGITS, dialect=Dialect.ENCODER, pool=POOL)
    contract = EngineContract(name, Dialect.ENCODER, 4)
    made_of = spec_hash(recipe)
    return EngineComponent(EngineName(name), ModelId(f"local/{name}"), made_of, recipe, contract, Digest("d" * 64))


class Scene:
    """A pool, and what is asked of its engines."""

    def __init__(self, engines: LocalEngines, probes: TritonProbeClient) -> None:
        self.engines = engines
        self.probes = probes
        self.seen: dict[str, ClusterEngine] = {}

    async def acts(self, *, start: tuple[EngineComponent, ...] = (), stop: str = "", restart: str = "") -> None:
        def names(of: str) -> tuple[EngineName, ...]:
            return (EngineName(of),) if of else ()

        steps = Plan(start=start, stop=names(stop), restart=names(restart), pools={POOL: SPEC})
        await self.engines.act(steps)

    async def are(self, **phases: EnginePhase) -> None:
        self.seen = {}
        async with asyncio.timeout(120):
            while {name: engine.phase for name, engine in self.seen.items()} != phases:
                await asyncio.sleep(0.02)
                self.seen = {engine.name: engine for engine in await self.engines.engines()}

    async def answers(self, name: str) -> None:
        await self.probes.probe(Target(self.seen[name].grpc, name, Dialect.ENCODER))

    def stub(self, name: str) -> list[psutil.Process]:
        """Return the processes of a model."""
        found = []
        for process in psutil.Process(os.getpid()).children(recursive=True):
            try:
                command = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            if len(command) > 1 and command[0].endswith("_stub") and f"/{name}/" in command[1]:
                found.append(process)
        return found


@asynccontextmanager
async def pool_in(folder: Path) -> AsyncIterator[Scene]:
    state = StateFolder(folder)
    changed = asyncio.Event()
    with state.held():
        async with Supervisor() as supervisor, TritonClient() as triton, TritonHttp() as http:
            server = EngineServer(find_triton(), dict(os.environ))  # noqa: TID251 - as `conch up` hands it on
            engines = LocalEngines(supervisor, state, server, triton, changed.set)
            try:
                yield Scene(engines, TritonProbeClient(triton, http))
            finally:
                await engines.stop_all()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with pool_in(tmp_path / "state") as scene:
        yield scene


RUNNING, BLOCKED = EnginePhase.RUNNING, EnginePhase.BLOCKED


async def test_models_share_a_server_and_each_is_alone_in_its_trouble(scene: Scene, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in FOLDER.iterdir():
        (broken / file.name).write_bytes(file.read_bytes() if file.suffix != ".onnx" else b"no graph")
    await scene.acts(start=(component("one"), component("two"), component("broken", broken)))
    await scene.are(one=RUNNING, two=RUNNING, broken=BLOCKED)
    one, two, failed = scene.seen["one"], scene.seen["two"], scene.seen["broken"]
    assert one.grpc == two.grpc
    assert failed.fault is not None
    assert failed.fault.reason is Reason.ENGINE_LOAD_FAILED
    assert failed.fault.message.startswith("Triton could not load broken: ")
    for engine in (one, two):
        assert engine.memory_bytes is not None
        assert 5 * 1024**2 < engine.memory_bytes < 500 * 1024**2
    await scene.answers("one")
    await scene.answers("two")

    # One that goes is gone when its process is; another that is as broken as before goes as well.
    await scene.acts(stop="two")
    await scene.acts(stop="broken")
    await scene.are(one=RUNNING)
    assert scene.stub("two") == scene.stub("broken") == []
    await scene.answers("one")

    # A model whose process is dead is loaded anew, in the same server.
    (before,) = scene.stub("one")
    before.kill()
    await scene.acts(restart="one")
    await eventually(lambda: any(stub.pid != before.pid for stub in scene.stub("one")), "its new process")
    await scene.are(one=RUNNING)
    assert scene.seen["one"].incarnation > one.incarnation
    await scene.answers("one")


async def test_a_server_that_ends_is_started_again_with_its_models(scene: Scene) -> None:
    await scene.acts(start=(component("one"), component("two")))
    await scene.are(one=RUNNING, two=RUNNING)
    before = scene.seen["one"]
    server = scene.stub("one")[0].parent()
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    await scene.are(one=EnginePhase.EXITED, two=EnginePhase.EXITED)
    assert "was killed by SIGKILL" in scene.seen["one"].detail
    await scene.are(one=RUNNING, two=RUNNING)
    assert scene.seen["one"].incarnation > before.incarnation
    await scene.answers("one")
    await scene.answers("two")


async def test_a_load_that_hangs_fails_in_time_and_holds_up_no_other_model(scene: Scene, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.mkdir()
    (hanging / "model.safetensors").write_bytes(b"")
    os.mkfifo(hanging / "config.json")  # whoever reads it waits for a writer, who never comes
    began = time.monotonic()
    await scene.acts(start=(component("one"), component("hangs", hanging)))
    await scene.are(one=RUNNING, hangs=BLOCKED)
    assert SPEC.max_load <= time.monotonic() - began < SPEC.max_load + LATE_S
    fault = scene.seen["hangs"].fault
    assert fault is not None
    assert fault.reason is Reason.ENGINE_LOAD_FAILED
    assert "Triton could not load hangs: " in fault.message
    await scene.acts(start=(component("two"),))
    await scene.are(one=RUNNING, two=RUNNING, hangs=BLOCKED)
    await scene.answers("one")
    await scene.answers("two")

    # Triton cannot give it up, so when it is to go its server ends, and the others are loaded again.
    before = scene.seen["one"].incarnation
    await scene.acts(stop="hangs")
    await scene.are(one=EnginePhase.EXITED, two=EnginePhase.EXITED)
    await scene.are(one=RUNNING, two=RUNNING)
    assert scene.stub("hangs") == []
    assert scene.seen["one"].incarnation > before
    await scene.answers("one")
