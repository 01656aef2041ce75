"""One Triton server that many models share: they are loaded into it and unloaded one by one, over gRPC.

Each model that is to be there has a task: it waits until the server answers, loads the model, and does so again when
the server has ended and was started anew. Where one cannot be loaded, or its process is dead, the others hear nothing
of it.
"""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineError, EngineRejected
from conch_operator.local.stub_processes import memory_of, stubs_of
from conch_operator.local.supervisor import LaunchError, SupervisedProcess
from conch_operator.probe.triton_request import load_cause
from conch_operator.state import ClusterEngine, EngineComponent, EngineName, EnginePhase, Fault

log = logging.getLogger(__name__)

LOADS_AT_ONCE = 4
"""As many as Triton works on; more would wait inside it."""
LOAD_S = 600.0
"""After which a model that is still loading has failed; the server goes on with it."""
UNLOAD_S = 60.0
"""After which a server that does not let go of a model is ended, with all others: its memory comes back in no other
way."""
_POLL_S = 0.05
_MEASURE_S = 10.0


@dataclass(slots=True)
class PoolServer:
    """The server's process, and where it is asked."""

    process: SupervisedProcess
    grpc: EngineAddress
    repository: Path
    triton: TritonClient

    async def answers(self) -> int:
        """Wait until the server answers; return which of its runs does so."""
        while True:
            run = self.process.incarnation
            if self.process.phase is EnginePhase.RUNNING:
                with suppress(EngineError):
                    await self.triton.repository_index(self.grpc)
                    return run
            await asyncio.sleep(_POLL_S)

    def is_on(self, run: int) -> bool:
        """Return whether this run goes on."""
        return self.process.incarnation == run and self.process.phase is EnginePhase.RUNNING


class PooledEngine:
    """One model in the server, from when it is wanted until nothing of it is left."""

    def __init__(
        self,
        component: EngineComponent,
        server: PoolServer,
        write: Callable[[EngineComponent, Path], None],
        loads: asyncio.Semaphore,
        changed: Callable[[], None],
    ) -> None:
        self.component = component
        self._server = server
        self._write = write
        self._loads = loads
        self._changed = changed
        self._phase = EnginePhase.STARTING
        self._incarnation = 0
        self._fault: Fault | None = None
        self._memory_bytes: int | None = None
        self._stopping = asyncio.Event()
        self._restarting = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=component.name)

    @property
    def gone(self) -> bool:
        """Return whether it was told to stop and nothing of it is left; raises what is a fault of the code."""
        if self._task.done():
            self._task.result()
        return self._task.done()

    @property
    def seen(self) -> ClusterEngine:
        """Return the engine as the cluster reports it."""
        server, phase, detail = self._server.process, self._phase, ""
        if phase in (EnginePhase.STARTING, EnginePhase.RUNNING) and server.phase is EnginePhase.EXITED:
            phase, detail = EnginePhase.EXITED, f"was in a server that {server.detail}"
        return ClusterEngine(
            name=self.component.name,
            model=self.component.model,
            spec_hash=self.component.spec_hash,
            contract=self.component.contract,
            phase=phase,
            grpc=self._server.grpc,
            incarnation=self._incarnation,
            detail=detail,
            fault=self._fault,
            memory_bytes=self._memory_bytes,
        )

    def stop(self) -> None:
        """Have the model unloaded."""
        self._phase = EnginePhase.STOPPING
        self._stopping.set()

    def restart(self) -> None:
        """Have the model unloaded and loaded again."""
        if self._phase is EnginePhase.RUNNING:
            self._phase = EnginePhase.STARTING
            self._restarting.set()

    async def cancel(self) -> None:
        """Forget the model; its server ends."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    @property
    def _name(self) -> str:
        return self.component.contract.triton_model

    @property
    def _folder(self) -> Path:
        return self._server.repository / self._name

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._serve()
            if self._server.process.phase is EnginePhase.RUNNING:
                await self._unload()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._changed()

    async def _serve(self) -> None:
        """Load the model, and return when it is to be unloaded, or the server's run is over."""
        run = await self._before_stop(self._server.answers())
        if run is None:
            return
        self._restarting.clear()
        try:
            async with self._loads:
                await asyncio.to_thread(self._write, self.component, self._server.repository)
                await self._server.triton.load_model(self._server.grpc, self._name, timeout_s=LOAD_S)
        except LaunchError as error:
            self._enter(EnginePhase.BLOCKED, Fault(Reason.ENGINE_LOAD_FAILED, str(error)))
        except EngineError as error:
            if not self._server.is_on(run):
                return
            cause = load_cause(error.message) if isinstance(error, EngineRejected) else error.message
            message = f"Triton could not load {self._name}: {cause}"
            self._enter(EnginePhase.BLOCKED, Fault(Reason.ENGINE_LOAD_FAILED, message))
        else:
            await self._measure()
            self._incarnation += 1
            self._enter(EnginePhase.RUNNING)
        await self._stay(run)
        if self._restarting.is_set() and not self._stopping.is_set() and self._server.is_on(run):
            await self._unload()

    async def _stay(self, run: int) -> None:
        """Return when the model is to be unloaded, or the server's run is over; measure it meanwhile."""
        loop = asyncio.get_running_loop()
        measure_at_s = loop.time() + _MEASURE_S
        while self._server.is_on(run) and not (self._stopping.is_set() or self._restarting.is_set()):
            await asyncio.sleep(_POLL_S)
            if loop.time() >= measure_at_s and self._phase is EnginePhase.RUNNING:
                await self._measure()
                measure_at_s = loop.time() + _MEASURE_S
        if not self._stopping.is_set():
            self._enter(EnginePhase.STARTING)

    async def _before_stop(self, wait: Awaitable[int]) -> int | None:
        """Return what comes, or None when it is to stop before."""
        waiting, stopping = asyncio.ensure_future(wait), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() and not self._stopping.is_set() else None
        finally:
            waiting.cancel()
            stopping.cancel()

    async def _measure(self) -> None:
        stubs = await self._stubs()
        sizes = [await asyncio.to_thread(memory_of, stub) for stub in stubs]
        known = [size for size in sizes if size is not None]
        self._memory_bytes = sum(known) if known else None

    async def _stubs(self) -> tuple[int, ...]:
        server = self._server.process.pid
        return () if server is None else await asyncio.to_thread(stubs_of, server, self._folder)

    async def _unload(self) -> None:
        """Unload the model and wait until its process has ended: until then its memory is not free."""
        run, deadline = self._server.process.incarnation, asyncio.get_running_loop().time() + UNLOAD_S
        try:
            await self._server.triton.unload_model(self._server.grpc, self._name, timeout_s=UNLOAD_S)
        except EngineError as error:
            log.info("A model was not unloaded.", extra={"engine": self.component.name, "error": error.message})
        while self._server.is_on(run) and await self._stubs():
            if asyncio.get_running_loop().time() > deadline:
                log.warning("A model stays in its server, which is ended.", extra={"engine": self.component.name})
                self._server.process.restart()
                return
            await asyncio.sleep(_POLL_S)

    def _enter(self, phase: EnginePhase, fault: Fault | None = None) -> None:
        if not self._stopping.is_set():
            self._phase, self._fault = phase, fault
        self._changed()


class EnginePoolServer:
    """One server with the models that are in it now."""

    def __init__(
        self, server: PoolServer, write: Callable[[EngineComponent, Path], None], changed: Callable[[], None]
    ) -> None:
        self.process = server.process
        self._server = server
        self._write = write
        self._changed = changed
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self.engines: dict[EngineName, PooledEngine] = {}

    def start(self, component: EngineComponent) -> None:
        """Have a model loaded."""
        self.engines[component.name] = PooledEngine(component, self._server, self._write, self._loads, self._changed)

    def forget_gone(self) -> None:
        """Forget the models of which nothing is left."""
        self.engines = {name: engine for name, engine in self.engines.items() if not engine.gone}

    async def end(self) -> None:
        """Forget all models and have the server end."""
        self.process.stop()
        for engine in self.engines.values():
            await engine.cancel()
        self.engines = {}
