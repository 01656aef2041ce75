"""Keeps tokenizer bundles in Redis under their digest; what comes out is checked against it."""

import asyncio
import logging

from conch_contracts.names import MAX_BUNDLE_BYTES, Digest, bundle_key
from conch_kit.bundles.archive import BundleError, digest
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable

log = logging.getLogger(__name__)

TRANSFER_S = 20.0
"""How long one bundle may travel: 64 MiB over a slow network."""
PATIENCE_S = 3.0
"""How long a bundle that somebody waits for is asked for again: as long as a breaker takes to see Redis' return."""
_PAUSE_S = 0.1


class BundleStore:
    """Bundles by digest. All methods raise RegistryUnavailable while Redis does not answer."""

    def __init__(self, redis: RedisClient, *, patience_s: float = PATIENCE_S) -> None:
        self._redis = redis
        self._patience_s = patience_s

    async def get(self, name: Digest) -> bytes | None:
        """Return a bundle, or None when Redis has none whose content fits the digest."""
        try:
            data = await self._ask(name)
        except RegistryError as error:
            log.warning("Redis refuses a bundle.", extra={"digest": name, "error": str(error)})
            return None
        if not isinstance(data, bytes):
            return None
        if await asyncio.to_thread(digest, data) != name:
            log.warning("A bundle in Redis is not what its digest says; ignoring it.", extra={"digest": name})
            return None
        return data

    async def put(self, name: Digest, data: bytes) -> None:
        """Store a bundle; raises BundleError when it does not fit its digest or is too large."""
        if len(data) > MAX_BUNDLE_BYTES:
            raise BundleError(f"the bundle has {len(data)} bytes, at most {MAX_BUNDLE_BYTES} are allowed")
        if await asyncio.to_thread(digest, data) != name:
            raise BundleError(f"the bundle's content does not fit its digest {name}")
        try:
            await self._redis.execute("SET", bundle_key(name), data, timeout_s=TRANSFER_S)
        except RegistryError as error:
            raise RegistryUnavailable(f"Redis refuses the bundle: {error}") from error

    async def has(self, name: Digest) -> bool:
        """Return whether Redis holds something under this digest."""
        return bool(await self._redis.execute("EXISTS", bundle_key(name)))

    async def _ask(self, name: Digest) -> object:
        """Ask for a bundle until Redis answers or patience ends: a process that has just started has nothing else."""
        deadline = asyncio.get_running_loop().time() + self._patience_s
        while True:
            try:
                return await self._redis.execute("GET", bundle_key(name), timeout_s=TRANSFER_S)
            except RegistryUnavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(_PAUSE_S)
