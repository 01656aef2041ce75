"""What is made of tokenizers, by bundle digest: from memory, else from the bundle's tokenizer.json."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from conch_contracts.names import Digest
from conch_kit.errors import InternalError

TOKENIZER = "tokenizer.json"

T = TypeVar("T")


class TokenizerUnreadable(Exception):
    """A tokenizer.json that cannot be read."""


class BundleFolders(Protocol):
    """Where the files of bundles are."""

    async def folder(self, digest: Digest) -> Path:
        """Return the folder with a bundle's files; raises Unavailable."""
        ...

    async def discard(self, digest: Digest) -> None:
        """Remove the files of a bundle that are broken."""
        ...


class HeldCount(Protocol):
    """Hears how many are held."""

    def set(self, value: float) -> None:
        """Take the number."""
        ...


class TokenizerCache(Generic[T]):
    """Loads each once, however many requests ask for it at the same time; the least recently used goes first."""

    def __init__(self, bundles: BundleFolders, read: Callable[[bytes], T], held: HeldCount, size: int) -> None:
        """`read` makes one of a tokenizer.json, in a thread; raises TokenizerUnreadable."""
        self._bundles = bundles
        self._read_json = read
        self._held = held
        self._size = size
        self._loaded: OrderedDict[Digest, T] = OrderedDict()
        self._locks: dict[Digest, asyncio.Lock] = {}

    async def get(self, digest: Digest) -> T:
        """Return what is made of a bundle; raises Unavailable while it cannot be fetched, InternalError."""
        known = self._loaded.get(digest)
        if known is not None:
            self._loaded.move_to_end(digest)
            return known
        lock = self._locks.setdefault(digest, asyncio.Lock())
        try:
            async with lock:
                if digest not in self._loaded:
                    self._keep(digest, await self._load(digest))
                return self._loaded[digest]
        finally:
            if not lock.locked():
                self._locks.pop(digest, None)

    def _keep(self, digest: Digest, loaded: T) -> None:
        self._loaded[digest] = loaded
        while len(self._loaded) > self._size:
            self._loaded.popitem(last=False)
        self._held.set(len(self._loaded))

    async def _load(self, digest: Digest) -> T:
        try:
            return await self._read(digest)
        except (TokenizerUnreadable, OSError):
            await self._bundles.discard(digest)
        try:
            return await self._read(digest)
        except (TokenizerUnreadable, OSError) as exc:
            raise InternalError(f"Tokenizer bundle {digest} has no usable tokenizer.json.") from exc

    async def _read(self, digest: Digest) -> T:
        folder = await self._bundles.folder(digest)
        return await asyncio.to_thread(lambda: self._read_json((folder / TOKENIZER).read_bytes()))
