"""Where answers wait for clients that come back to them: Redis, each with a time to live and under its owner.

An answer belongs to the API key that asked for it; to any other key its id is unknown. Without keys all share one.
Who asks for an answer while Redis is away is told so: it may well be there.
"""

import logging
import re
from enum import StrEnum
from typing import Any, Protocol

import jiter

from conch_contracts.names import RESPONSE_PREFIX
from conch_kit.errors import Unavailable
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable

log = logging.getLogger(__name__)

LARGE_BYTES = 64 * 1024
TRANSFER_S = 2.0
"""Time for one larger record; small ones have the client's own."""
MAX_RECORD_BYTES = 8 * 1024 * 1024
"""A larger record, which takes a context of a million tokens, is not kept."""
_ID = re.compile(r"resp_[0-9a-f]{32}")

Record = dict[str, Any]
"""`response`: the answer; `input`: the items that the model was given, earlier turns included."""


class ResponseNote(StrEnum):
    """What stands beside a record while its answer is being made in the background."""

    LEASE = "lease"
    """How far it is; whoever makes it renews this."""
    STOP = "stop"
    """That it is not wanted any more: a `StopOrder`."""


class StopOrder(StrEnum):
    """What becomes of an answer that is not wanted any more."""

    CANCEL = "cancel"
    """It stays, as `cancelled`."""
    DELETE = "delete"
    """Nothing of it stays."""


class ResponseStore(Protocol):
    """Keeps answers."""

    async def get(self, owner: str, response_id: str) -> Record | None:
        """Return a record, None when there is none; raises Unavailable."""

    async def put(self, owner: str, response_id: str, record: bytes) -> bool:
        """Keep a record, and tell whether it is kept."""

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a record, and tell whether there was one; raises Unavailable."""

    async def note(self, owner: str, response_id: str, note: ResponseNote) -> str | None:
        """Return what stands beside a record; raises Unavailable."""

    async def leave_note(self, owner: str, response_id: str, note: ResponseNote, text: str, ttl_s: float) -> None:
        """Let something stand beside a record for a while; raises Unavailable."""


class RedisResponses:
    """Keeps answers in Redis."""

    def __init__(self, redis: RedisClient, ttl_s: float) -> None:
        self._redis = redis
        self._ttl_ms = max(1, round(ttl_s * 1000))

    async def get(self, owner: str, response_id: str) -> Record | None:
        """Return a record; an id that is none of ours is not even asked for."""
        if not _ID.fullmatch(response_id):
            return None
        try:
            found = await self._redis.execute("GET", _key(owner, response_id), timeout_s=TRANSFER_S)
        except (RegistryUnavailable, RegistryError) as error:
            raise _away() from error
        record: Record | None = None if found is None else jiter.from_json(found, cache_mode="none")
        return record

    async def put(self, owner: str, response_id: str, record: bytes) -> bool:
        """Keep a record for its time."""
        command = ("SET", _key(owner, response_id), record, "PX", self._ttl_ms)
        try:
            await self._redis.execute(*command, timeout_s=TRANSFER_S if len(record) > LARGE_BYTES else None)
        except (RegistryUnavailable, RegistryError) as error:
            log.warning("A response cannot be kept.", extra={"response": response_id, "error": str(error)})
            return False
        return True

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a record."""
        if not _ID.fullmatch(response_id):
            return False
        try:
            return bool(await self._redis.execute("DEL", _key(owner, response_id)))
        except (RegistryUnavailable, RegistryError) as error:
            raise _away() from error

    async def note(self, owner: str, response_id: str, note: ResponseNote) -> str | None:
        """Return what stands beside a record."""
        try:
            found: bytes | None = await self._redis.execute("GET", f"{_key(owner, response_id)}:{note}")
        except (RegistryUnavailable, RegistryError) as error:
            raise _away() from error
        return None if found is None else found.decode()

    async def leave_note(self, owner: str, response_id: str, note: ResponseNote, text: str, ttl_s: float) -> None:
        """Let something stand beside a record for a while."""
        command = ("SET", f"{_key(owner, response_id)}:{note}", text, "PX", round(ttl_s * 1000))
        try:
            await self._redis.execute(*command)
        except (RegistryUnavailable, RegistryError) as error:
            raise _away() from error


def _key(owner: str, response_id: str) -> str:
    return f"{RESPONSE_PREFIX}{owner}:{response_id}"


def _away() -> Unavailable:
    return Unavailable("The store of responses does not answer.", code="store_unavailable", retry_after_s=2)
