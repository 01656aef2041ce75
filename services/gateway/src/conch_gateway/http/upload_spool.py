"""Where a file waits between client and worker: in memory while it is small, then in a file that has no name.

Nothing is written or read on the event loop. All uploads share a bounded space on disk. A file without a name goes
with its descriptor, however the process ends.
"""

import asyncio
import logging
import tempfile
import threading
from types import TracebackType
from typing import IO, Self

from conch_kit.errors import InternalError, Unavailable

log = logging.getLogger(__name__)

MEMORY_BYTES = 2 * 1024 * 1024
"""What one upload may hold in memory."""
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
"""What all of them may hold before the small ones go to disk too."""
BLOCK_BYTES = 256 * 1024
"""What is written at once above that, and read at once."""
RETRY_AFTER_S = 5.0


class SpoolSpace:
    """The memory and the disk that all uploads share."""

    def __init__(self, limit_bytes: int, folder: str | None = None) -> None:
        """`folder` is where the files are; None: where the system has temporary ones."""
        self.used_bytes = 0
        """On disk."""
        self.memory_bytes = 0
        self.folder = folder
        self._limit_bytes = limit_bytes

    @property
    def fits_memory(self) -> bool:
        """Whether an upload need not go to disk for the others' sake."""
        return self.memory_bytes <= SHARED_MEMORY_BYTES

    def is_filled_to(self, part: float) -> bool:
        """Tell whether more than this part of the disk is taken."""
        return self.used_bytes > part * self._limit_bytes

    def take(self, size: int) -> None:
        """Reserve some of the disk; raises Unavailable when it is full."""
        if self.used_bytes + size > self._limit_bytes:
            raise no_room()
        self.used_bytes += size

    def give_back(self, size: int) -> None:
        """Free what was reserved."""
        self.used_bytes -= size


class UploadSpool:
    """One upload, as a context that frees it; a `BodySource` once all of it was added. Used in an event loop."""

    def __init__(self, space: SpoolSpace) -> None:
        self._space = space
        self._memory = bytearray()
        self._written = 0
        self._reserved = 0
        self._file: IO[bytes] | None = None
        self._closed = False
        self._busy = threading.Lock()
        """Held by whoever uses the file: a descriptor that is closed meanwhile may soon be that of another file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._empty_memory()
        self._space.give_back(self._reserved)
        self._reserved = 0
        if not self._busy.locked():
            self._close()
        else:  # by a thread that goes on though nobody waits for it any more
            asyncio.get_running_loop().run_in_executor(None, self._close)

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._written + len(self._memory)

    def add(self, piece: bytes) -> None:
        """Keep a piece in memory; whoever adds calls `settle` now and then."""
        self._memory += piece
        self._space.memory_bytes += len(piece)

    async def settle(self) -> None:
        """Write what is too much for memory; raises Unavailable when there is no room for it."""
        size = len(self._memory)
        small = not self._written and self._space.fits_memory
        if size < (MEMORY_BYTES if small else BLOCK_BYTES):
            return
        self._space.take(size)
        self._reserved += size
        try:
            await asyncio.to_thread(self._write, self._memory)
        except OSError as exc:
            log.warning("An upload cannot be kept.", extra={"reason": exc.strerror})
            raise no_room() from exc
        self._written += size
        self._empty_memory()

    async def piece(self, start: int) -> bytes:
        """Return some of it from there on; raises InternalError when it cannot be read."""
        if start >= self._written:
            at = start - self._written
            return bytes(self._memory[at : at + BLOCK_BYTES])
        try:
            found = await asyncio.to_thread(self._read, start, min(BLOCK_BYTES, self._written - start))
        except OSError as exc:
            raise InternalError("The uploaded file cannot be read again.") from exc
        if not found:
            raise InternalError("The uploaded file cannot be read again.")
        return found

    def _empty_memory(self) -> None:
        self._space.memory_bytes -= len(self._memory)
        self._memory = bytearray()

    # --- in threads ------------------------------------------------------------------------------

    def _write(self, data: bytearray) -> None:
        with self._busy:
            if self._closed:
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._space.folder, buffering=0)  # noqa: SIM115 - `_close` ends it
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]

    def _read(self, start: int, size: int) -> bytes:
        with self._busy:
            if self._file is None or self._closed:
                return b""
            self._file.seek(start)
            return self._file.read(size)

    def _close(self) -> None:
        with self._busy:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None


def no_room() -> Unavailable:
    """Return the error for an upload that finds no place."""
    return Unavailable("The server has no room for another upload.", retry_after_s=RETRY_AFTER_S)
