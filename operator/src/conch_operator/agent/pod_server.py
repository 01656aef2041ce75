"""The server in the container beside the agent, found by its process: the containers of a pod share them.

The kubelet starts it again whenever it ends. It is looked for again and again, so an end is known a moment later.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conch_kit.background_loops import BackgroundLoops
from conch_operator.state import EnginePhase

_NAME = b"tritonserver"
_LOOK_S = 0.1
_NEW_S = 5.0
"""A server that is younger is the next one after that which is meant: whoever means one has watched it for longer, and
asks again until he sees that it has ended."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROCESSES = Path("/proc")


class PodServer(BackgroundLoops):
    """Knows the server's process, as an async context manager that keeps looking."""

    def __init__(self, changed: Callable[[], None], processes: Path = _PROCESSES) -> None:
        """Call `changed` whenever the server has ended or was started."""
        super().__init__(self._follow)
        self._changed = changed
        self._processes = processes
        self._started = b""
        self.phase = EnginePhase.STARTING
        self.incarnation = 0
        self.pid: int | None = None
        self.detail = ""

    @property
    def root(self) -> Path | None:
        """Return where the agent sees the files of the server's container; None while the server does not run."""
        return None if self.pid is None else self._processes / str(self.pid) / "root"

    def restart(self) -> None:
        """Kill what runs; the kubelet starts it again."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        """Look, and return whether a server that ran has ended, and no other has been started."""
        self.look()
        return self.incarnation > 0 and self.pid is None

    def restart_unless_new(self) -> bool:
        """Do so where what runs has for a while: else somebody means the process before it.

        Return whether there is a server that may be ended.
        """
        self.look()
        if self.pid is None:
            return False
        if self._age_s() >= _NEW_S:
            try:
                self.restart()
            except PermissionError:
                return False
        return True

    def look(self) -> None:
        """Look once whether the server runs."""
        if self.pid is not None and self._start_of(self.pid) == self._started:
            return
        if self.pid is not None:
            self.pid, self.phase, self.detail = None, EnginePhase.EXITED, "ended and is started again by the kubelet."
            self._changed()
        for folder in self._processes.iterdir():
            if folder.name.isdecimal() and _read(folder / "comm").strip() == _NAME:
                pid = int(folder.name)
                started = self._start_of(pid)
                if not started:  # it has ended meanwhile
                    continue
                self.pid, self._started = pid, started
                self.incarnation += 1
                self.phase = EnginePhase.RUNNING
                self._changed()
                return

    async def _follow(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def _age_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(self._started) / _TICKS_PER_S

    def _start_of(self, pid: int) -> bytes:
        """Return when a process was started, as the kernel tells; empty for one that has ended."""
        after_name = _read(self._processes / str(pid) / "stat").rpartition(b")")[2].split()
        ended = not after_name or after_name[0] == b"Z"
        return b"" if ended else after_name[19]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended, or belongs to somebody else
        return b""
