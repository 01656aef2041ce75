"""Starts a child for each file and reads what it decodes.

Children are forked by the standard library's fork server, which has imported what they need; so one costs
milliseconds. It ends when this process does, and its children with it.
"""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import TracebackType
from typing import Any, Self

from conch_contracts.messages.message import from_json
from conch_kit.deadlines import time_limit
from conch_kit.errors import InvalidRequest
from conch_kit.frames import HEADER_BYTES, Frame, FrameReader
from conch_speech_worker.audio.child_messages import ChildFrame, DecodingLimits, FileRefusal

_MOST_FRAME_BYTES = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
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
    if os.getppid() != parent:
        return
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
        await asyncio.to_thread(self._warm_up)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the fork server to end with this process."""

    @asynccontextmanager
    async def decoding(self, file: int, limits: DecodingLimits) -> AsyncIterator["DecodedSound"]:
        """Decode an open file while the body reads; leaving early kills the child."""
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)  # noqa: FBT003
            with theirs:
                process = await self._started(file, theirs.fileno(), limits)
            try:
                reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_READ_BYTES)
                try:
                    yield DecodedSound(reader, limits.silence_s)
                finally:
                    writer.transport.abort()
            finally:
                await self._end(process)

    async def _started(self, file: int, wire: int, limits: DecodingLimits) -> ForkServerProcess:
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

    def _start(self, file: int, wire: int, limits: DecodingLimits) -> ForkServerProcess:
        arguments = (_Descriptor(file), _Descriptor(wire), limits, _fork_server_id())
        process = self._context.Process(target=_run_child, args=arguments, daemon=True)
        with self._looked_at:
            process.start()
        return process

    async def _end(self, process: ForkServerProcess) -> None:
        process.kill()
        await asyncio.shield(asyncio.to_thread(self._bury, process))

    def _bury(self, process: ForkServerProcess) -> None:
        process.join()
        with self._looked_at:
            process.close()

    def _warm_up(self) -> None:
        from multiprocessing import forkserver

        forkserver.ensure_running()


def _fork_server_id() -> int:
    from multiprocessing import forkserver

    forkserver.ensure_running()
    found = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    assert isinstance(found, int)
    return found


class DecodedSound:
    """The samples of one file as they are decoded."""

    def __init__(self, reader: asyncio.StreamReader, silence_s: float) -> None:
        self._reader = reader
        self._silence_s = silence_s
        self._frames = FrameReader(_MOST_FRAME_BYTES)
        self._ready: list[Frame] = []
        self._ended = False

    async def read(self) -> bytes:
        """Return the next samples, 16 bits each; empty at the end. Raises InvalidRequest for what cannot be heard."""
        while not self._ended:
            while self._ready:
                frame = self._ready.pop(0)
                match frame.kind:
                    case ChildFrame.SAMPLES:
                        if frame.payload:
                            return frame.payload
                    case ChildFrame.END:
                        self._ended = True
                    case _:
                        refusal = from_json(FileRefusal, frame.payload)
                        raise InvalidRequest(refusal.message, param="file", code=refusal.code)
            if self._ended:
                break
            data = await self._next()
            self._ready = self._frames.feed(data)
        return b""

    async def _next(self) -> bytes:
        """Return what the child writes next; raises InvalidRequest where it ends or falls silent."""
        data = b""
        with suppress(TimeoutError), time_limit(self._silence_s):
            data = await self._reader.read(_READ_BYTES + HEADER_BYTES)
        if not data:
            raise InvalidRequest(
                "The audio file cannot be decoded: it takes too much memory or time, or breaks the decoder.",
                param="file",
                code="invalid_audio",
            )
        return data
