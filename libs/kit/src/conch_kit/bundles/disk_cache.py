"""Tokenizer bundles on disk, unpacked, fetched from the registry when they are first needed.

A folder named by its digest is complete, because `conch_kit.bundles.archive` unpacks beside it and renames. So folders
serve while Redis is away, survive a crash and may be shared by several processes.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from conch_contracts.names import TOKENIZER_NOT_READY, Digest
from conch_kit.bundles.archive import BundleError, unpack
from conch_kit.errors import Unavailable
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.shared_calls import SharedCalls

log = logging.getLogger(__name__)

_RETRY_AFTER_S = 1.0


class BundleSource(Protocol):
    """Where bundles come from."""

    async def get(self, name: Digest, /) -> bytes | None:
        """Return a packed bundle; None when there is none whose content fits its digest."""
        ...


class BundleCache:
    """Gives the folder of a bundle's files."""

    def __init__(self, source: BundleSource, folder: Path, on_fetched: Callable[[], None] = lambda: None) -> None:
        self._source = source
        self._folder = folder
        self._on_fetched = on_fetched
        self._fetching: SharedCalls[Digest, None] = SharedCalls()

    async def folder(self, digest: Digest) -> Path:
        """Return the folder with a bundle's files; raises Unavailable.

        All who ask while it is being fetched wait for the same answer, be it that it cannot be had.
        """
        folder = self._folder / digest
        await self._fetching.run(digest, lambda: self._ensure(digest, folder))
        return folder

    async def _ensure(self, digest: Digest, folder: Path) -> None:
        if not await asyncio.to_thread(folder.is_dir):
            await self._fetch(digest, folder)

    async def discard(self, digest: Digest) -> None:
        """Remove a bundle whose files turn out to be broken, so that it is fetched again."""
        await asyncio.to_thread(shutil.rmtree, self._folder / digest, ignore_errors=True)

    async def _fetch(self, digest: Digest, folder: Path) -> None:
        try:
            data = await self._source.get(digest)
        except RegistryUnavailable as exc:
            raise _not_ready(digest, "it is not cached and the registry does not answer") from exc
        if data is None:
            raise _not_ready(digest, "the registry does not hold it whole")
        try:
            await asyncio.to_thread(unpack, data, folder)
        except BundleError as exc:
            log.error("A tokenizer bundle cannot be unpacked.", extra={"digest": digest, "reason": str(exc)})
            raise _not_ready(digest, "it cannot be unpacked") from exc
        self._on_fetched()
        log.info("Tokenizer bundle fetched.", extra={"digest": digest, "bytes": len(data)})


def _not_ready(digest: Digest, why: str) -> Unavailable:
    return Unavailable(
        f"tokenizer {digest[:12]} is not available here: {why}",
        code=TOKENIZER_NOT_READY,
        retry_after_s=_RETRY_AFTER_S,
        retryable=True,
    )
