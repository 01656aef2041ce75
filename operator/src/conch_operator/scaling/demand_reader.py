"""Hears what gateways have to do: each of their records as it is published, and all that Redis holds once a second.

Whoever asks for a model to be awake leaves word in Redis and has a record published then, so these wishes are read with
every record too. What cannot be read changes nothing but that nobody may take what is known for all there is. So it is
after Redis has lost what it held, which the registry's epoch tells: until there is a registry again, and for as long
after it as a gateway that lives may take to say anew what it has to do.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from conch_contracts.names import LOADS_KEY, META_KEY, ModelId
from conch_contracts.records import GatewayLoad
from conch_kit.background_loops import BackgroundLoops
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.liveness import EXPIRY_S
from conch_kit.registry.load_reader import forget_silent
from conch_kit.registry.snapshot import Parser
from conch_kit.registry.woken_models import WokenModels
from conch_kit.timed_waits import wait_at_most
from conch_operator.scaling.demand import DemandBook

log = logging.getLogger(__name__)

_LIST_S = 1.0
_WISHES_S = 0.02
"""Between two looks at wishes, however many records come."""
_AGAIN_S = 0.5


class DemandReader(BackgroundLoops):
    """Keeps a book of demand up to date, as an async context manager."""

    def __init__(
        self,
        redis: RedisClient,
        book: DemandBook,
        *heard: Callable[[Collection[ModelId]], None],
        unix_time: Callable[[], float] = time.time,
        list_s: float = _LIST_S,
    ) -> None:
        """Each of `heard` is called on the loop with the models of which something new is known, maybe of none."""
        super().__init__(self._listen, self._read)
        self._redis = redis
        self._book = book
        self._heard = heard
        self._woken = WokenModels(redis, unix_time)
        self._parser = Parser()
        self._list_s = list_s
        self._record_came = asyncio.Event()
        self._epoch: bytes | None = None
        """Of the registry that was seen last; who has seen none misses none."""

    async def _listen(self) -> None:
        while True:
            with suppress(RegistryUnavailable, RegistryError):
                async with self._redis.pubsub(LOADS_KEY) as notices:
                    async for notice in notices:
                        load = self._parser.record(GatewayLoad, notice)
                        if load is not None and self._book.hear(load):
                            self._tell(load.models)
                            self._record_came.set()
            await asyncio.sleep(_AGAIN_S)

    async def _read(self) -> None:
        """Read one after the other, so that what was read earlier never replaces what was read later."""
        while True:
            await self.refresh()
            list_at_s = time.monotonic() + self._list_s
            while await self._comes_before(list_at_s):
                await self._read_wishes()
                await asyncio.sleep(_WISHES_S)

    async def _comes_before(self, end_s: float) -> bool:
        """Wait for a record; return whether one came in time."""
        await wait_at_most(self._record_came, end_s - time.monotonic())
        came = self._record_came.is_set() and time.monotonic() < end_s
        if came:
            self._record_came.clear()
        return came

    async def _read_wishes(self) -> None:
        try:
            woken = self._take_wishes(await self._woken.read())
        except (RegistryUnavailable, RegistryError):
            self._record_came.set()  # what the record was about is still to be read
        else:
            if woken:
                self._tell(woken)

    def _take_wishes(self, awake_until: Mapping[ModelId, float]) -> set[ModelId]:
        """Take over the wishes that there are, and return the models of which they have changed."""
        changed = {model for model, _ in awake_until.items() ^ self._book.awake_until.items()}
        self._book.awake_until = awake_until
        return changed

    async def refresh(self) -> None:
        """Read once all that Redis holds."""
        try:
            loads, awake_until = await self._redis.execute("HVALS", LOADS_KEY), await self._woken.read()
            # last, so that it tells of a loss while those were read
            epoch = await self._redis.execute("HGET", META_KEY, "epoch")
        except RegistryUnavailable:
            self._book.lose()
            return
        except RegistryError as error:
            log.warning("What gateways have to do cannot be read.", extra={"error": str(error)})
            self._book.lose()
            return
        self._book.come_back()
        records = (self._parser.record(GatewayLoad, raw) for raw in loads)
        news = self._book.take_all([load for load in records if load is not None])
        self._look_for_loss(epoch)
        with suppress(RegistryUnavailable, RegistryError):
            await forget_silent(self._redis, self._book.records)
        self._tell(self._take_wishes(awake_until).union(*(load.models for load in news)))

    def _look_for_loss(self, epoch: bytes | None) -> None:
        """Note that Redis has lost what it held where it had a registry, and has none or another one now."""
        if self._epoch not in (None, epoch):
            self._book.incomplete_until_s = self._book.clock() + EXPIRY_S
        self._epoch = epoch or self._epoch

    def _tell(self, models: Collection[ModelId]) -> None:
        for heard in self._heard:
            heard(models)
