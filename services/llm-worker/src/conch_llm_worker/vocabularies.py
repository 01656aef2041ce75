"""Vocabularies by bundle digest: from memory, from the disk cache, from Redis, in this order.

Only a bundle's tokenizer.json is read. The disk cache holds unpacked bundles in folders named by their digest,
each made in one step; so with Redis away everything that was used before goes on working, after a restart too.
"""

import asyncio
import logging
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

from conch_contracts.names import TOKENIZER_NOT_READY, Digest
from conch_kit.bundles import BundleError, unpack
from conch_kit.errors import InternalError, Unavailable
from conch_kit.redis_client import RegistryUnavailable
from conch_llm_worker.metrics import Metrics
from conch_llm_worker.vocabulary import Vocabulary, VocabularyError

log = logging.getLogger(__name__)

TOKENIZER = "tokenizer.json"


class Bundles(Protocol):
    """Where bundles are fetched from."""

    async def get(self, digest: Digest) -> bytes | None:
        """Return a bundle, or None when there is none."""
        ...


class VocabularyCache:
    """Loads vocabularies once each, however many requests ask for them at the same time."""

    def __init__(self, bundles: Bundles, folder: Path, metrics: Metrics, size: int) -> None:
        self._bundles = bundles
        self._folder = folder
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
        folder = self._folder / digest
        cached = await asyncio.to_thread(_cached, folder)
        if cached is not None:
            return cached
        data = await self._fetch(digest)
        try:
            return await asyncio.to_thread(_unpacked, data, folder)
        except (BundleError, VocabularyError, OSError) as exc:
            raise InternalError(f"Tokenizer bundle {digest} has no usable tokenizer.json.") from exc

    async def _fetch(self, digest: Digest) -> bytes:
        try:
            data = await self._bundles.get(digest)
        except RegistryUnavailable as exc:
            raise _not_ready(f"Tokenizer bundle {digest} cannot be fetched now.") from exc
        if data is None:
            raise _not_ready(f"Tokenizer bundle {digest} is not in the registry.")
        return data


def _not_ready(message: str) -> Unavailable:
    return Unavailable(message, code=TOKENIZER_NOT_READY, retryable=True)


def _cached(folder: Path) -> Vocabulary | None:
    """Return the vocabulary of an unpacked bundle; a broken one is removed and counts as absent."""
    try:
        return Vocabulary.from_json((folder / TOKENIZER).read_bytes())
    except (FileNotFoundError, VocabularyError):
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as exc:
        log.warning("The cache of tokenizer bundles cannot be read.", extra={"reason": str(exc)})
    return None


def _unpacked(data: bytes, folder: Path) -> Vocabulary:
    unpack(data, folder)
    return Vocabulary.from_json((folder / TOKENIZER).read_bytes())
