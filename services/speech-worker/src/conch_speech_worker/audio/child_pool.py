"""Starts children that decode files, one for each.

Children are forked by the standard library's fork server, which has imported what they need; so one costs
milliseconds. It ends when this process does, and its children with it.
"""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection, reduction
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import TracebackType
from typing import Any, Self

from conch_speech_worker.audio.child_messages import DecodingLimits
from conch_speech_worker.audio.decoded_sound import FORK_SERVER_LOST, READ_BYTES, DecodedSound, DecodingChild

_PR_SET_PDEATHSIG = 1
_END_S = 10.0
"""How long a process may take to end that says no more."""
_PRELOADED = ("conch_speech_worker.audio.decoding", "conch_speech_worker.audio.child_pool")


class _Descriptor:
    """A file descriptor among the arguments of a new process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def detach(self) -> int:
        return self._descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self._descriptor),)


def _received(duplicate: Any) -> _Descriptor:
    return _Descriptor(duplicate.detach())


def _run_child(file: _Descriptor, wire: _Descriptor, limits: DecodingLimits, parent: int) -> None:
    """Decode in a new process, which dies with the fork server."""
    from conch_speech_worker.audio.decoding import decode_in_child  # only children pay for its libraries

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended, maybe before another one took the start
        sys.exit(FORK_SERVER_LOST)
    with socket.socket(fileno=wire.detach()) as out:
        decode_in_child(file.detach(), out, limits)


class DecodingChildren:
    """Gives a child for each file."""

    def __init__(self) -> None:
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._looked_at = threading.Lock()
        """Whoever starts a child has the library look at all others, of which none may be closed meanwhile."""

    async def __aenter__(self) -> Self:
        self._context.set_forkserver_preload(list(_PRELOADED))
        await asyncio.to_thread(fork_server_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the fork server to end with this process."""

    def decoding(self, file: int, limits: DecodingLimits) -> AbstractAsyncContextManager[DecodedSound]:
        """Decode an open file while the body reads; leaving early kills the child."""
        return DecodedSound(partial(self._child, file, limits), limits.silence_s)

    @asynccontextmanager
    async def _child(self, file: int, limits: DecodingLimits) -> AsyncIterator[DecodingChild]:
        """Give a child that decodes a file from its beginning."""
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)  # noqa: FBT003
            with theirs:
                child = await self._started(file, theirs.fileno(), limits)
            try:
                reader, writer = await asyncio.open_unix_connection(sock=ours, limit=READ_BYTES)
                try:
                    yield DecodingChild(reader, partial(self._exit_code, child), partial(_cpu_s, child.process.pid))
                finally:
                    writer.transport.abort()
            finally:
                await self._end(child)

    async def _started(self, file: int, wire: int, limits: DecodingLimits) -> "_StartedChild":
        """Start a child with two descriptors, which stay open meanwhile: once closed, they may be somebody else's."""
        starting = asyncio.create_task(asyncio.to_thread(self._start, file, wire, limits))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            while not starting.done():
                with suppress(asyncio.CancelledError):  # it is passed on below, once
                    await asyncio.wait([starting])
            if starting.exception() is None:
                await self._end(starting.result())
            raise

    def _start(self, file: int, wire: int, limits: DecodingLimits) -> "_StartedChild":
        server = fork_server_id()
        arguments = (_Descriptor(file), _Descriptor(wire), limits, server)
        process = self._context.Process(target=_run_child, args=arguments, daemon=True)
        try:
            with self._looked_at:
                process.start()
        except (EOFError, ConnectionError):  # the fork server has ended, or is about to
            _wait_for_end(server)
            raise
        return _StartedChild(process, server)

    async def _exit_code(self, child: "_StartedChild") -> int | None:
        """Wait for the end of a child that says no more, and tell how it ended; None where it does not end."""
        return await asyncio.to_thread(self._ended, child)

    def _ended(self, child: "_StartedChild") -> int | None:
        connection.wait([child.process.sentinel], _END_S)
        with self._looked_at:  # who reads the exit status leaves none for others
            code = child.process.exitcode
        if code == FORK_SERVER_LOST:
            _wait_for_end(child.server)
        return code

    async def _end(self, child: "_StartedChild") -> None:
        child.process.kill()
        await asyncio.shield(asyncio.to_thread(self._bury, child.process))

    def _bury(self, process: ForkServerProcess) -> None:
        process.join()
        with self._looked_at:
            process.close()


@dataclass(frozen=True, slots=True)
class _StartedChild:
    process: ForkServerProcess
    server: int
    """The id of the fork server that it comes from."""


def _cpu_s(process: int | None) -> float:
    """Return the processor time that a child has taken; 0 where it has ended, and its status been read."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            user, system = file.read().rpartition(b")")[2].split()[11:13]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _wait_for_end(process: int) -> None:
    """Wait until a child process of this one has ended; the library starts no other fork server before."""
    with suppress(ProcessLookupError):  # somebody has seen its end already
        descriptor = os.pidfd_open(process)
        try:
            connection.wait([descriptor], _END_S)
        finally:
            os.close(descriptor)


def fork_server_id() -> int:
    """Return the id of the process that forks the children; it is started where there is none."""
    from multiprocessing import forkserver

    forkserver.ensure_running()
    found = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    assert isinstance(found, int)
    return found
