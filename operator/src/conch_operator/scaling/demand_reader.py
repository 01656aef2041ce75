"""Hears what gateways have to do: each of their records as it is published, and all that Redis holds once a second.

Models that somebody asked to be awake are read with them. What cannot be read changes nothing but that nobody may take
what is known for all there is.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from conch_contracts.names import LOADS_KEY
from conch_contracts.records import GatewayLoad
from conch_kit.background_loops import BackgroundLoops
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.snapshot import Parser
from conch_kit.registry.woken_models import WokenModels
from conch_operator.scaling.demand import DemandBook

log = logging.getLogger(__name__)

_LIST_S = 1.0
_AGAIN_S = 0.5


class DemandReader(BackgroundLoops):
    """Keeps a book of demand up to date, as an async context manager."""

    def __init__(
        self,
        redis: RedisClient,
        book: DemandBook,
        heard: Callable[[GatewayLoad | None], None],
        *,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        """`heard` is called on the event loop with each new record, and with None when all that there is was read."""
        super().__init__(self._listen, self._list_again)
        self._redis = redis
        self._book = book
        self._heard = heard
        self._woken = WokenModels(redis, unix_time)
        self._parser = Parser()

    async def _listen(self) -> None:
        while True:
            with suppress(RegistryUnavailable, RegistryError):
                async with self._redis.pubsub(LOADS_KEY) as notices:
                    async for notice in notices:
                        load = self._parser.record(GatewayLoad, notice)
                        if load is not None and self._book.hear(load):
                            self._heard(load)
            await asyncio.sleep(_AGAIN_S)

    async def _list_again(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(_LIST_S)

    async def refresh(self) -> None:
        """Read once all that Redis holds."""
        try:
            loads, awake_until = await self._redis.execute("HVALS", LOADS_KEY), await self._woken.read()
        except RegistryUnavailable:
            self._book.lose()
            return
        except RegistryError as error:
            log.warning("What gateways have to do cannot be read.", extra={"error": str(error)})
            self._book.lose()
            return
        if self._book.away:
            self._book.come_back()
        records = (self._parser.record(GatewayLoad, raw) for raw in loads)
        self._book.take_all([load for load in records if load is not None])
        self._book.forget()
        self._book.awake_until = awake_until
        self._heard(None)
