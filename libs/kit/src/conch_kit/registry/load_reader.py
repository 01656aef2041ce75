"""What the other gateways have to do, as each of them said last.

Records come as notices; the hash is read when the subscription begins and every 2 s, for what was missed. A gateway
whose sequence has not moved for 6 s is gone. While Redis is away nobody goes, and the reader says that it is away.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from conch_contracts.names import LOADS_KEY
from conch_contracts.records import GatewayLoad
from conch_kit.background_loops import BackgroundLoops
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.load_book import LoadBook
from conch_kit.registry.snapshot import Parser

log = logging.getLogger(__name__)

_LIST_S = 2.0
_LOOK_S = 0.5
"""How often it is looked at whether somebody has gone."""


@dataclass(frozen=True, slots=True)
class OtherLoads:
    """What is known of the others at one moment."""

    loads: tuple[GatewayLoad, ...] = ()
    """Of those that live; while Redis is `away`, those that lived last."""
    away: bool = False
    """Whether Redis cannot be heard, so that nothing of this is new."""


class LoadReader(BackgroundLoops):
    """Follows the others' records, as an async context manager."""

    def __init__(
        self,
        redis: RedisClient,
        own_id: str,
        apply: Callable[[OtherLoads], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`apply` is called on the event loop when something is new; the records of `own_id` are not."""
        super().__init__(self._listen, self._look)
        self._redis = redis
        self._apply = apply
        self._book = LoadBook(clock, without=own_id)
        self._own_mark = f'{{"id":"{own_id}",'.encode()
        self._parser = Parser()
        self._away = False
        self._said = OtherLoads()

    async def _listen(self) -> None:
        while True:
            try:
                async with self._redis.pubsub(LOADS_KEY) as notices:
                    await self._list()
                    self._come_back()
                    async for notice in notices:
                        if not notice.startswith(self._own_mark):
                            self._hear(notice)
            except (RegistryUnavailable, RegistryError) as error:
                log.debug("No notices of loads.", extra={"error": str(error)})
            self._away = True
            self._say()
            await asyncio.sleep(_LOOK_S)

    async def _look(self) -> None:
        while True:
            for _ in range(round(_LIST_S / _LOOK_S)):
                await asyncio.sleep(_LOOK_S)
                if not self._away:
                    self._say()
            if not self._away:
                with suppress(RegistryUnavailable, RegistryError):
                    await self._list()
                    await forget_silent(self._redis, self._book)

    async def _list(self) -> None:
        news = False
        for raw in await self._redis.execute("HVALS", LOADS_KEY):
            load = self._parser.record(GatewayLoad, raw)
            news |= load is not None and self._book.hear(load)
        if news and not self._away:
            self._say()

    def _hear(self, notice: bytes) -> None:
        load = self._parser.record(GatewayLoad, notice)
        if load is not None and self._book.hear(load):
            self._say()

    def _come_back(self) -> None:
        if self._away:
            self._book.forgive(self._said.loads)
        self._away = False
        self._say()

    def _say(self) -> None:
        """Tell what has changed; while Redis is away those stay who were there."""
        said = OtherLoads(self._said.loads if self._away else self._book.living(), self._away)
        if said != self._said:
            self._said = said
            self._apply(said)


async def forget_silent(redis: RedisClient, book: LoadBook) -> None:
    """Take those out of Redis, and then of the book, that have been silent for long: what stayed there would be news.

    Raises RegistryUnavailable and RegistryError; then they are not forgotten.
    """
    if gone := book.silent():
        await redis.execute("HDEL", LOADS_KEY, *gone)
        book.forget(gone)
