"""Vocabularies by bundle digest: from memory, else from the bundle's tokenizer.json."""

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

from conch_contracts.names import Digest
from conch_kit.errors import InternalError
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_llm_worker.text.vocabulary import Vocabulary, VocabularyError

TOKENIZER = "tokenizer.json"


class BundleFolders(Protocol):
    """Where the files of bundles are."""

    async def folder(self, digest: Digest) -> Path:
        """Return the folder with a bundle's files; raises Unavailable."""
        ...

    async def discard(self, digest: Digest) -> None:
        """Remove the files of a bundle that are broken."""
        ...


class VocabularyCache:
    """Loads vocabularies once each, however many requests ask for them at the same time."""

    def __init__(self, bundles: BundleFolders, metrics: LlmWorkerMetrics, size: int) -> None:
        self._bundles = bundles
        self._metrics = metrics
        self._size = size
        self._loaded: OrderedDict[Digest, Vocabulary] = OrderedDict()
        self._locks: dict[Digest, asyncio.Lock] = {}

    async def get(self, digest: Digest) -> Vocabulary:
        """Return the vocabulary of a bundle; raise `Unavailable` while it cannot be fetched."""
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

    def _keep(self, digest: Digest, vocabulary: Vocabulary) -> None:
        self._loaded[digest] = vocabulary
        while len(self._loaded) > self._size:
            self._loaded.popitem(last=False)
        self._metrics.vocabularies.set(len(self._loaded))

    async def _load(self, digest: Digest) -> Vocabulary:
        try:
            return await self._read(digest)
        except (VocabularyError, OSError):
            await self._bundles.discard(digest)
        try:
            return await self._read(digest)
        except (VocabularyError, OSError) as exc:
            raise InternalError(f"Tokenizer bundle {digest} has no usable tokenizer.json.") from exc

    async def _read(self, digest: Digest) -> Vocabulary:
        folder = await self._bundles.folder(digest)
        return await asyncio.to_thread(_vocabulary, folder)


def _vocabulary(folder: Path) -> Vocabulary:
    return Vocabulary.from_json((folder / TOKENIZER).read_bytes())
