"""One model in a server that many share: it is loaded and unloaded over gRPC, while the server runs.

Each model that is to be there has a task: it waits until the server answers, loads the model, and does so again when
the server has ended and was started anew. Where one cannot be loaded, or its process is dead, the others hear nothing
of it. A load that hangs takes one of the few that go on at once until its time is over; since Triton cannot give it up,
its server is ended then, and the others are loaded again.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, ModelId
from conch_kit.side_by_side import end
from conch_kit.triton.errors import EngineError, EngineRejected, EngineUnavailable
from conch_operator.engine_pools.shared_server import POLL_S, SharedServer
from conch_operator.probe.triton_request import load_cause
from conch_operator.state import ClusterEngine, EngineContract, EngineName, EnginePhase, Fault
from conch_operator.triton.repository_writing import write_repository

log = logging.getLogger(__name__)

_Came = TypeVar("_Came")

LONGEST_UNLOAD_S = 60.0
"""After which a server that does not let go of a model is ended, with all others: its memory comes back in no other
way."""
END_SEEN_S = 2.0
"""Within which the end of a process is seen by whoever starts it again."""
_LEAST_CHANGE = 20
"""A size is taken over when it has changed by that part of itself: what is said of it is not to change all the time."""


@dataclass(frozen=True, slots=True)
class Loadable:
    """One model as a server is to have it."""

    name: EngineName
    model: ModelId
    spec_hash: str
    contract: EngineContract
    tokenizer: Digest
    """The tokenizer of the folder that it is loaded from."""
    longest_load_s: float
    """After which one that is still loading has failed."""
    files: Mapping[str, str]
    """Of the model repository, by path."""


class PooledModel:
    """One model in the server, from when it is wanted until nothing of it is left."""

    def __init__(
        self,
        loadable: Loadable,
        server: SharedServer,
        loads: asyncio.Semaphore,
        changed: Callable[[], None],
        before: Sequence["PooledModel"] = (),
    ) -> None:
        """Begin at once, or when nothing is left of those `before` it that have its name in the server."""
        self.loadable = loadable
        self._server = server
        self._loads = loads
        self._before = before
        self._changed = changed
        self._phase = EnginePhase.STARTING
        self._incarnation = 0
        self._fault: Fault | None = None
        self._memory_bytes: int | None = None
        self._stopping = asyncio.Event()
        self._restarting = asyncio.Event()
        self._woken = asyncio.Event()
        self._on = 0
        """The run of the server that it is in."""
        self._told = False
        """Whether that run was told to load it, and not yet to unload it."""
        self._task = asyncio.create_task(self._run(), name=loadable.name)

    @property
    def gone(self) -> bool:
        """Return whether it was told to stop and nothing of it is left."""
        return self._task.done()

    @property
    def seen(self) -> ClusterEngine:
        """Return the model as an engine of the cluster."""
        server, phase, detail = self._server.process, self._phase, ""
        if phase in (EnginePhase.STARTING, EnginePhase.RUNNING) and server.phase is EnginePhase.EXITED:
            phase, detail = EnginePhase.EXITED, f"was in a server that {server.detail}"
        return ClusterEngine(
            name=self.loadable.name,
            model=self.loadable.model,
            spec_hash=self.loadable.spec_hash,
            contract=self.loadable.contract,
            phase=phase,
            grpc=self._server.grpc(),
            incarnation=self._incarnation,
            detail=detail,
            fault=self._fault,
            memory_bytes=self._memory_bytes,
        )

    def stop(self) -> None:
        """Have the model unloaded."""
        self._phase = EnginePhase.STOPPING
        self._stopping.set()
        self._woken.set()

    def restart(self) -> None:
        """Have the model unloaded and loaded again."""
        if self._phase is EnginePhase.RUNNING:
            self._phase = EnginePhase.STARTING
            self._restarting.set()
            self._woken.set()

    def look(self) -> None:
        """Have it notice that the run of the server which it is in is over."""
        if not self._server.is_on(self._on):
            self._woken.set()

    @property
    def runs(self) -> bool:
        """Return whether it is loaded and to stay so."""
        return self._phase is EnginePhase.RUNNING

    def measured(self, sizes: Mapping[str, int]) -> None:
        """Take over how many bytes it takes, if it runs, from those of all models, by their names in the server."""
        if self.runs:
            self._take_size(sizes.get(self._name))

    async def cancel(self) -> None:
        """Forget the model; its server ends."""
        await end(self._task)

    @property
    def _name(self) -> str:
        return self.loadable.contract.triton_model

    @property
    def _folder(self) -> Path:
        return self._server.repository / self._name

    async def _run(self) -> None:
        while self._must_wait and not self._stopping.is_set():  # noqa: ASYNC110 - one or the other ends it
            await asyncio.sleep(POLL_S)
        if not self._must_wait:
            await self._live()
        self._changed()

    @property
    def _must_wait(self) -> bool:
        """Return whether something is left of a model that has its name and folder."""
        return not all(one.gone for one in self._before)

    async def _live(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._serve_or_fail()
            await self._unload()
        except Exception:  # the end of a task: the others in the server hear nothing of it
            log.exception("A model was not unloaded; its server is ended.", extra={"engine": self.loadable.name})
            self._server.process.restart()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve_or_fail(self) -> None:
        try:
            await self._serve()
        except Exception as error:  # likewise: whoever wants the model has it stopped and loaded again
            log.exception("A model fails by a fault of Conch.", extra={"engine": self.loadable.name})
            cause = f"{type(error).__name__}: {error}".rstrip(".")
            message = f"It fails by a fault of Conch: {cause}. Report it with the stack that was logged."
            self._enter(EnginePhase.BLOCKED, Fault(Reason.ENGINE_LOAD_FAILED, message))
            await self._stopping.wait()

    async def _serve(self) -> None:
        """Load the model, and return when it is to be unloaded, or the server's run is over."""
        run = await self._before_stop(self._server.answers())
        if run is None:
            return
        self._on, self._told = run, False
        self._restarting.clear()
        try:
            async with self._turn() as may_load:
                if not may_load or not self._server.is_on(run):
                    return
                await asyncio.to_thread(write_repository, self._server.repository, self.loadable.files)
                self._told = True
                await self._server.triton.load_model(
                    self._server.grpc(), self._name, timeout_s=self.loadable.longest_load_s
                )
        except OSError as error:
            message = f"Its files cannot be written into {self._server.repository}: {error.strerror or error}."
            self._enter(EnginePhase.BLOCKED, Fault(Reason.ENGINE_LOAD_FAILED, message))
        except EngineError as error:
            if isinstance(error, EngineUnavailable):
                await self._end_of(run)
            if not self._server.is_on(run):
                return
            cause = load_cause(error.message) if isinstance(error, EngineRejected) else error.message
            message = f"Triton could not load {self._name}: {cause}"
            self._enter(EnginePhase.BLOCKED, Fault(Reason.ENGINE_LOAD_FAILED, message))
        else:
            self._take_size(await self._server.size_of(self._name))
            self._incarnation += 1
            self._enter(EnginePhase.RUNNING)
        await self._stay(run)
        if self._restarting.is_set() and not self._stopping.is_set():
            await self._unload()

    async def _stay(self, run: int) -> None:
        """Return when the model is to be unloaded, or the server's run is over."""
        await self._until_over(run)
        if not self._stopping.is_set():
            self._enter(EnginePhase.STARTING)

    async def _until_over(self, run: int) -> None:
        while self._server.is_on(run) and not (self._stopping.is_set() or self._restarting.is_set()):
            self._woken.clear()
            await self._woken.wait()

    async def _end_of(self, run: int) -> None:
        """Wait a moment for the end of a run whose server does not answer: it is seen later than its silence.

        Triton says likewise that a model's own process has ended, which is no end of the run.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SEEN_S):
                await self._until_over(run)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[bool]:
        """Wait for its turn to load and give whether it is to: one that is to stop waits no longer, and is not."""
        has_come = await self._before_stop(self._loads.acquire())
        try:
            yield not self._stopping.is_set()
        finally:
            if has_come:
                self._loads.release()

    async def _before_stop(self, wait: Awaitable[_Came]) -> _Came | None:
        """Return what comes, or None when it is to stop and nothing has come yet."""
        waiting, stopping = asyncio.ensure_future(wait), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopping.cancel()

    def _take_size(self, size: int | None) -> None:
        if size is not None and _has_changed(self._memory_bytes, size):
            self._memory_bytes = size
            self._changed()

    async def _unload(self) -> None:
        """Unload the model if it is there, and wait until its process has ended: until then its memory is not free."""
        if not self._told or not self._server.is_on(self._on):
            return
        self._told = False
        limit_s = min(LONGEST_UNLOAD_S, self.loadable.longest_load_s)
        deadline = asyncio.get_running_loop().time() + limit_s
        try:
            await self._server.triton.unload_model(self._server.grpc(), self._name, timeout_s=limit_s)
        except EngineError as error:
            log.info("A model was not unloaded.", extra={"engine": self.loadable.name, "error": error.message})
        while self._server.is_on(self._on) and await self._server.runs_model(self._name):
            if asyncio.get_running_loop().time() > deadline:
                log.warning("A model stays in its server, which is ended.", extra={"engine": self.loadable.name})
                self._server.process.restart()
                return
            await asyncio.sleep(POLL_S)

    def _enter(self, phase: EnginePhase, fault: Fault | None = None) -> None:
        if not self._stopping.is_set():
            self._phase, self._fault = phase, fault
        self._changed()


def _has_changed(before: int | None, now: int) -> bool:
    return before is None or abs(now - before) * _LEAST_CHANGE > before
