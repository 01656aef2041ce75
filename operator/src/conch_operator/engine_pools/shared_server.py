"""One Triton server that many models share: its process, what is asked of it, and the processes of its models."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conch_contracts.names import EngineAddress
from conch_kit.triton.errors import EngineError
from conch_operator.engine_pools.stub_processes import memory_of, own_memory_of, stubs_of
from conch_operator.state import EnginePhase

log = logging.getLogger(__name__)

MOST_OWN_BYTES = 512 * 1024 * 1024
"""Of the server itself: each load leaves some 0.1 MiB behind in it, and its pod has room for 768 MiB at least."""
LEAST_RUN_S = 3600.0
"""How long a server runs at least before it is ended for its size: one that needs as much would end again and again."""
POLL_S = 0.05
"""How often it is looked at where nobody tells of a change."""


class ServerProcess(Protocol):
    """A server's process, which somebody starts again whenever it ends."""

    @property
    def phase(self) -> EnginePhase:
        """Return where it is in its life."""

    @property
    def incarnation(self) -> int:
        """Return how often it was started."""

    @property
    def pid(self) -> int | None:
        """Return the number of the process that runs."""

    @property
    def detail(self) -> str:
        """Return how it ended last."""

    def restart(self) -> None:
        """Kill what runs; it is started again."""


class ModelControl(Protocol):
    """How models are loaded into a server and unloaded."""

    async def repository_index(self, address: EngineAddress) -> object:
        """Return when the server answers; raises EngineError."""

    async def load_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        """Load a model; raises EngineError."""

    async def unload_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        """Unload a model; raises EngineError."""


@dataclass(slots=True)
class SharedServer:
    """The server's process, and where it is asked: another start may be at another address."""

    process: ServerProcess
    grpc: Callable[[], EngineAddress]
    repository: Path
    triton: ModelControl
    _run: int = 0
    _run_since_s: float = 0.0

    async def answers(self) -> int:
        """Wait until the server answers; return which of its runs does so."""
        while True:
            run = self.process.incarnation
            if self.process.phase is EnginePhase.RUNNING:
                with suppress(EngineError):
                    await self.triton.repository_index(self.grpc())
                    return run
            await asyncio.sleep(POLL_S)

    def is_on(self, run: int) -> bool:
        """Return whether this run goes on."""
        return self.process.incarnation == run and self.process.phase is EnginePhase.RUNNING

    async def runs_model(self, model: str) -> bool:
        """Return whether a process for this model is there now."""
        return model in await asyncio.to_thread(self._stubs)

    async def size_of(self, model: str) -> int | None:
        """Return how many bytes a model takes; None when it has no process."""
        stubs = (await asyncio.to_thread(self._stubs)).get(model, ())
        return await asyncio.to_thread(memory_of, stubs)

    async def sizes(self) -> Mapping[str, int]:
        """Return how many bytes each model takes that has a process, by its name in the server."""
        return await asyncio.to_thread(self._sizes)

    async def end_when_large(self) -> None:
        """End a process that has grown too large: it is started anew, and its models are loaded again."""
        run, now_s = self.process.incarnation, asyncio.get_running_loop().time()
        if run != self._run:
            self._run, self._run_since_s = run, now_s
        if self.process.pid is None or now_s - self._run_since_s < LEAST_RUN_S:
            return
        size = await asyncio.to_thread(own_memory_of, self.process.pid)
        if size is not None and size > MOST_OWN_BYTES and self.is_on(run):
            log.warning("The server of a pool has grown, and is started anew.", extra={"mib": size // 1024**2})
            self.process.restart()

    def _stubs(self) -> Mapping[str, tuple[int, ...]]:
        pid = self.process.pid
        return {} if pid is None else stubs_of(pid, self.repository)

    def _sizes(self) -> Mapping[str, int]:
        sizes = {model: memory_of(stubs) for model, stubs in self._stubs().items()}
        return {model: size for model, size in sizes.items() if size is not None}
