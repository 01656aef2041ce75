"""Starts processes so that none outlives `conch up`, and starts each again that ends by itself.

A `Supervisor` owns all of them and the orphan guard; a `SupervisedProcess` is one command that is started again, after
a growing pause, whenever it ends by itself. Each runs in a session of its own, so that Ctrl-C in the terminal reaches
only `conch up`.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from conch_kit.timed_waits import wait_at_most
from conch_operator.local import die_with_parent, orphan_guard
from conch_operator.local.exit_cause import exit_cause
from conch_operator.state import EnginePhase

_FIRST_PAUSE_S = 0.2
_STABLE_AFTER_S = 10.0
_BARE_PYTHON = (sys.executable, "-I", "-S")


@dataclass(frozen=True, slots=True)
class Command:
    """One program to run: its arguments, its complete environment and where its output goes."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path


CommandFactory = Callable[[], Awaitable[Command]]
"""Makes the command anew for each start; raises LaunchError."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How soon a process is started again, and how long it may take to end."""

    longest_pause_s: float = 2.0
    """Between two starts of a process that ends again and again."""
    grace_s: float = 10.0
    """From asking it to end to killing it."""


class LaunchError(Exception):
    """A command that cannot be made now; it is tried again like one that ended."""


class Supervisor:
    """Owns every process of one `conch up`; on exit nothing of them is left."""

    def __init__(self) -> None:
        self._tasks = asyncio.TaskGroup()
        self._guard: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._guard = await asyncio.create_subprocess_exec(
            *_BARE_PYTHON, orphan_guard.__file__, stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            assert self._guard is not None
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            await self._guard.wait()

    def supervise(
        self, name: str, command: CommandFactory, changed: Callable[[], None], policy: RestartPolicy = RestartPolicy()
    ) -> "SupervisedProcess":
        """Begin to run a command, and start it again whenever it ends; call `changed` after every start and end."""
        process = SupervisedProcess(self, command, changed, policy)
        process.task = self._tasks.create_task(process.run(), name=name)
        return process

    def remove_shared_memory_at_exit(self, prefix: str) -> None:
        """Have shared memory with this prefix removed when `conch up` has ended, however it ended."""
        self._tell_guard(f"shm {prefix}")

    async def spawn(self, command: Command) -> asyncio.subprocess.Process:
        """Start a command in its own process group."""
        with command.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(*_BARE_PYTHON, die_with_parent.__file__, str(os.getpid()), *command.arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(command.environment),
                start_new_session=True,
            )
        self._tell_guard(f"+{process.pid}")
        return process

    def kill_remains(self, process: asyncio.subprocess.Process) -> None:
        """Kill what is left of an ended process's group."""
        orphan_guard.kill_group(process.pid)
        self._tell_guard(f"-{process.pid}")

    def _tell_guard(self, line: str) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{line}\n".encode())


class SupervisedProcess:
    """One command that is started again whenever it ends, until it is told to stop."""

    def __init__(
        self, supervisor: Supervisor, command: CommandFactory, changed: Callable[[], None], policy: RestartPolicy
    ) -> None:
        self.phase = EnginePhase.STARTING
        self.incarnation = 0
        self.detail = ""
        self.cause = ""
        """What the last process that ended by itself said of it, in one line."""
        self.pid: int | None = None
        self.first_exit: int | None = None
        """How the first process ended by itself: its exit status, or its signal as a negative number."""
        self.task: asyncio.Task[None] | None = None
        self._supervisor = supervisor
        self._command = command
        self._changed = changed
        self._policy = policy
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()

    @property
    def gone(self) -> bool:
        """Return whether it was told to stop and has ended."""
        return self.task is not None and self.task.done()

    def stop(self) -> None:
        """Ask it to end; it is killed after its grace."""
        if not self._stopping.is_set():
            self._enter(EnginePhase.STOPPING)
            self._stopping.set()

    def kill(self) -> None:
        """End it at once."""
        self.stop()
        self._killing.set()

    def restart(self) -> None:
        """Kill the running process; it is started again like one that ended by itself."""
        if self.pid is not None:
            orphan_guard.kill_group(self.pid)

    async def stopped(self) -> None:
        """Wait until it has ended."""
        assert self.task is not None
        await asyncio.wait([self.task])

    async def run(self) -> None:
        """Start the command, and start it again whenever it ends, until told to stop."""
        pause_s = _FIRST_PAUSE_S
        try:
            while not self._stopping.is_set():
                started = time.monotonic()
                await self._run_once()
                if time.monotonic() - started > _STABLE_AFTER_S:
                    pause_s = _FIRST_PAUSE_S
                await self._rest(pause_s)
                pause_s = min(2 * pause_s, self._policy.longest_pause_s)
        finally:
            self._enter(EnginePhase.STOPPING)

    async def _rest(self, pause_s: float) -> None:
        """Wait so long, or until told to stop."""
        await wait_at_most(self._stopping, pause_s)

    async def _run_once(self) -> None:
        try:
            command = await self._command()
        except LaunchError as error:
            self.incarnation += 1
            self.detail, self.cause = f"cannot be started: {error}", ""
            self._enter(EnginePhase.EXITED)
            return
        log_began = command.log.stat().st_size if command.log.exists() else 0
        process = await self._supervisor.spawn(command)
        try:
            self.pid = process.pid
            self.incarnation += 1
            if not self._stopping.is_set():
                self._enter(EnginePhase.RUNNING)
            await self._ended_or_stopping(process)
            if process.returncode is None:
                await self._end(process)
            else:
                self.first_exit = process.returncode if self.incarnation == 1 else self.first_exit
                self.cause = exit_cause(command.log, log_began)
                self.detail = _how_it_ended(process.returncode, self.cause)
                self._enter(EnginePhase.EXITED)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self.pid = None
            self._supervisor.kill_remains(process)

    async def _ended_or_stopping(self, process: asyncio.subprocess.Process) -> None:
        waits = [asyncio.ensure_future(process.wait()), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        killing = asyncio.ensure_future(self._killing.wait())
        waiting = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait([killing, waiting], timeout=self._policy.grace_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            killing.cancel()

    def _enter(self, phase: EnginePhase) -> None:
        self.phase = phase
        self._changed()


def _how_it_ended(status: int, cause: str) -> str:
    how = f"was killed by {signal.Signals(-status).name}." if status < 0 else f"exited with status {status}."
    return f"{how} It said: {cause}" if cause else how
