"""Reads what children decode, and decides what the end of one means.

A child that its file breaks says so by how it ends, or works on and on without a result. One that is killed or held up
from outside, as the kernel does where a machine lacks memory, says nothing of its file, no more than one that cannot be
started: another one decodes it again.
Decoders give the same samples each time, so those that are known are passed over, and whoever reads them does not
notice.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from conch_contracts.messages.message import from_json
from conch_kit.deadlines import time_limit
from conch_kit.errors import InvalidRequest, Unavailable
from conch_kit.frames import HEADER_BYTES, Frame, FrameReader
from conch_speech_worker.audio.child_messages import ChildFrame, FileRefusal
from conch_speech_worker.audio.file_bounds import broken

log = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
FORK_SERVER_LOST = 255
"""The exit status of a child whose fork server has ended, and the child with it, as multiprocessing has it."""
_MOST_FRAME_BYTES = 4 * 1024 * 1024
_MOST_STARTS = 2
"""Children that a file may take; where more are killed, the machine cannot do it now."""
_LEAST_WORK = 0.1
"""Of the time in which a child says nothing: one that works less is held up from outside, not by its file."""
_BY_FILES = frozenset(
    {
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
        signal.SIGXCPU,
    }
)
"""Signals that end a child for what it does, all its bounds among them."""


@dataclass(frozen=True, slots=True)
class DecodingChild:
    """One child, as seen from here."""

    reader: asyncio.StreamReader
    exit_code: Callable[[], Awaitable[int | None]]
    """Waits for the end of a child that says no more; None where it does not end."""
    cpu_s: Callable[[], float]
    """The processor time that it has taken."""


class DecodedSound:
    """The samples of one file as they are decoded; a context manager that ends its child."""

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[DecodingChild]], silence_s: float) -> None:
        """`start` gives a child that decodes the file from its beginning; raises EOFError and OSError."""
        self._start = start
        self._silence_s = silence_s
        self._running = AsyncExitStack()
        self._frames = FrameReader(_MOST_FRAME_BYTES)
        self._ready: list[Frame] = []
        self._starts = 0
        self._given_bytes = 0
        self._known_bytes = 0
        """What the child is yet to say that is known already."""
        self._ended = False

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()

    async def read(self) -> bytes:
        """Return the next samples, 16 bits each; empty at the end.

        Raises InvalidRequest for what cannot be heard, and Unavailable where children are killed.
        """
        while not self._ended:
            frame = self._ready.pop(0) if self._ready else None
            if frame is None:
                await self._read_more()
                continue
            match frame.kind:
                case ChildFrame.SAMPLES:
                    if samples := self._unknown(frame.payload):
                        self._given_bytes += len(samples)
                        return samples
                case ChildFrame.END:
                    self._ended = True
                case _:
                    refusal = from_json(FileRefusal, frame.payload)
                    raise InvalidRequest(refusal.message, param="file", code=refusal.code)
        return b""

    async def _begin(self) -> None:
        """Have a child decode the file; raises Unavailable where none can be started."""
        self._starts += 1
        try:
            self._child = await self._running.enter_async_context(self._start())
        except (EOFError, OSError) as failure:
            log.warning("A decoder cannot be started.", extra={"error": repr(failure), "starts": self._starts})
            await self._begin_again()
        else:
            self._frames = FrameReader(_MOST_FRAME_BYTES)
            self._known_bytes = self._given_bytes

    def _unknown(self, samples: bytes) -> bytes:
        known = min(self._known_bytes, len(samples))
        self._known_bytes -= known
        return samples[known:]

    async def _read_more(self) -> None:
        """Wait for what the child writes next; raises InvalidRequest where it falls silent or its file ends it."""
        data, worked_s = None, self._child.cpu_s()
        with suppress(TimeoutError), time_limit(self._silence_s):
            data = await self._child.reader.read(READ_BYTES + HEADER_BYTES)
        if data:
            self._ready = self._frames.feed(data)
            return
        is_held = data is None and self._child.cpu_s() - worked_s < self._silence_s * _LEAST_WORK
        code = None if data is None else await self._child.exit_code()
        if not is_held and not _is_from_outside(code):
            refusal = broken("it takes too much memory or time, or breaks the decoder").refusal
            raise InvalidRequest(refusal.message, param="file", code=refusal.code)
        log.warning("A decoder was killed or held up.", extra={"exit_code": code, "starts": self._starts})
        await self._begin_again()

    async def _begin_again(self) -> None:
        """Have another child decode the file; raises Unavailable where that one cannot do it either."""
        if self._starts == _MOST_STARTS:
            raise Unavailable(
                "The worker's decoders cannot be started, or are killed or held up from outside; send the file again."
            )
        await self._running.aclose()
        await self._begin()


def _is_from_outside(exit_code: int | None) -> bool:
    return exit_code == FORK_SERVER_LOST or (exit_code is not None and exit_code < 0 and -exit_code not in _BY_FILES)
