"""Reads a request's body: the message, and the file behind it into a temporary file that has no name."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO

from conch_contracts.messages.message import InvalidMessage, from_json
from conch_contracts.messages.transcription import LENGTH_BYTES, TranscribeRequest
from conch_contracts.names import WORKER_STORAGE_FULL
from conch_kit.errors import BodyTooLarge, InvalidRequest, Unavailable
from conch_kit.http.asgi import ClientGone, Receive

_WRITTEN_TOGETHER = 256 * 1024
"""Bytes of a file that are written at once, in a thread."""


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """How large the two parts of a body may be."""

    message_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class TakenRequest:
    """A request and its file."""

    request: TranscribeRequest
    file: IO[bytes]


@asynccontextmanager
async def taken(receive: Receive, limits: IntakeLimits) -> AsyncIterator[TakenRequest]:
    """Give the request that a body holds; its file is gone at the end.

    Raises InvalidRequest, BodyTooLarge, ClientGone, and Unavailable where the disk is full.
    """
    body = _Body(receive)
    size = int.from_bytes(await body.exactly(LENGTH_BYTES), "big")
    if size > limits.message_bytes:
        raise BodyTooLarge(f"Expected a message of at most {limits.message_bytes} bytes, found {size}.")
    message = await body.exactly(size)
    try:
        request = from_json(TranscribeRequest, message)
    except InvalidMessage as exc:
        raise InvalidRequest(f"The TranscribeRequest is not valid: {exc}", param=exc.where or None) from exc
    if request.file_bytes > limits.file_bytes:
        raise BodyTooLarge(f"Expected a file of at most {limits.file_bytes} bytes, found {request.file_bytes}.")
    with tempfile.TemporaryFile(buffering=0) as file:
        await _save(body, file, request.file_bytes)
        yield TakenRequest(request, file)


async def _save(body: "_Body", file: IO[bytes], size: int) -> None:
    left = size
    try:
        while left:
            piece = await body.some(min(left, _WRITTEN_TOGETHER))
            await asyncio.to_thread(_write, file, piece)
            left -= len(piece)
    except OSError as exc:
        raise Unavailable(
            "The worker has no room for the file.", code=WORKER_STORAGE_FULL, retry_after_s=1, retryable=True
        ) from exc
    await body.end()


def _write(file: IO[bytes], piece: bytes) -> None:
    """Write all of a piece: where a disk has room for some of it, the first write says so and the next one fails."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


class _Body:
    """A request's body, read piece by piece."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._held = b""
        self._ended = False

    async def exactly(self, size: int) -> bytes:
        """Return the next bytes; raises InvalidRequest where there are fewer."""
        while len(self._held) < size:
            await self._more()
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    async def some(self, most: int) -> bytes:
        """Return what has come next; `most` bytes where as many follow at once."""
        while len(self._held) < most and not self._ended:
            await self._more()
        if not self._held:
            await self._more()
        return await self.exactly(min(most, len(self._held)))

    async def end(self) -> None:
        """Raise InvalidRequest where more comes than was announced."""
        while not self._ended and not self._held:
            await self._more()
        if self._held:
            raise InvalidRequest("The TranscribeRequest is not valid: file_bytes: more follows", param="file_bytes")

    async def _more(self) -> None:
        if self._ended:
            raise InvalidRequest("The TranscribeRequest is not valid: the body ends too early")
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._held += message.get("body", b"")
        self._ended = not message.get("more_body", False)
