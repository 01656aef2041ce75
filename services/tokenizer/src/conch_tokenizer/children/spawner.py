"""Starts children: the service's side of `zygote`.

The zygote is started with the service and again whenever it is found dead. Forking is asked for and never waited for
here; a new child reports on its own connection (`connection`).
"""

import asyncio
import dataclasses
import itertools
import logging
import socket
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import orjson

from conch_tokenizer.children.connection import ChildConnection
from conch_tokenizer.children.limits import ChildLimits

log = logging.getLogger(__name__)

_QUIET_LIBRARIES = {
    "HF_HUB_OFFLINE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""No network, and no threads in a process that forks."""
_OURS = "CONCH_"
"""Our settings stay with the service: some are secrets, and children run programs that come with models."""
_STOP_TIMEOUT_S = 5.0


class Spawner:
    """Owns the zygote and makes connections to its children."""

    def __init__(self, limits: ChildLimits, board: int, environ: Mapping[str, str]) -> None:
        """Make one; `board` is the descriptor of the work board."""
        self._limits = limits
        self._board = board
        self._environ = {
            name: value for name, value in environ.items() if not name.startswith(_OURS)
        } | _QUIET_LIBRARIES
        self._numbers = itertools.count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, stack: TracebackType | None
    ) -> None:
        await self._stop()

    async def spawn(self, row: int) -> ChildConnection:
        """Return a connection to a new child with this row of the work board; it says READY when it has started."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                log.warning("The zygote ended and is started again.")
                await self._stop()
                await self._start()
        ours, theirs = socket.socketpair()
        hand_over, taken = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)  # noqa: FBT003
        hand_over.setblocking(False)  # noqa: FBT003
        number = next(self._numbers)
        with theirs, taken:
            descriptors = [theirs.fileno(), taken.fileno()]
            socket.send_fds(self._open_control(), [f"F {number} {row}".encode()], descriptors)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(
            lambda: ChildConnection(number, lambda: self._kill(number), row=row, hand_over=hand_over), sock=ours
        )
        return connection

    async def restart(self) -> None:
        """Begin anew with another zygote; the children of the old one die with it."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
            await self._stop()
            await self._start()

    def _open_control(self) -> socket.socket:
        if self._control is None:
            raise ConnectionError("the zygote is not running")
        return self._control

    def _kill(self, number: int) -> None:
        # When the zygote is gone, so are its children.
        if self._control is not None:
            try:
                self._control.send(f"K {number}".encode())
            except OSError:
                log.info("A child's zygote is gone, the child with it.")

    async def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)  # noqa: FBT003
        with theirs:
            descriptor = theirs.fileno()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "conch_tokenizer.children.zygote"),
                *(str(descriptor), str(self._board), orjson.dumps(dataclasses.asdict(self._limits)).decode()),
                pass_fds=(descriptor, self._board),
                stdin=asyncio.subprocess.DEVNULL,
                env=self._environ,
            )

    async def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is None or self._process.returncode is not None:
            return
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
