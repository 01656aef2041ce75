"""Tells everybody what this gateway has to do, and which models somebody wants awake.

Whoever changes something only leaves word: a task writes, in one pipeline, the hash and the notice. The first change is
written at once, those that follow within a pause together at its end; what is urgent does not wait for that. The pause
is 50 ms where there are other gateways, which share slots by it. For a gateway alone it is half a second, half of the
time between two looks of an operator, so that requests one after the other do not pay for it.

Without a change a record comes every 2 s, since its sequence shows that the gateway lives. While Redis is away nothing
waits for it: what is true when it is back is written then.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from conch_contracts.names import LOADS_KEY, WAKES_KEY, ModelId
from conch_contracts.records import GatewayLoad
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.record_writer import RecordWriter
from conch_kit.registry.scripts import WAKE
from conch_kit.timed_waits import wait_at_most

log = logging.getLogger(__name__)

BEAT_S = 2.0
PAUSE_S = 0.05
"""Between two records, but for what is urgent."""
PAUSE_ALONE_S = 0.5
"""The same, while no other gateway listens."""
_AGAIN_S = 0.5
"""Until the next try, where Redis did not answer."""


class LoadWriter(RecordWriter):
    """Writes one gateway's load for as long as the context lasts."""

    def __init__(
        self, redis: RedisClient, gateway_id: str, record: Callable[[int], GatewayLoad], *, beat_s: float = BEAT_S
    ) -> None:
        """`record` returns what is to be said now, with this sequence number."""
        super().__init__(redis)
        self._id = gateway_id
        self._record = record
        self._beat_s = beat_s
        self._sequence = 0
        self._revision = 0
        """Of the registry, as was said last; who ends holds nobody up by having applied none."""
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        self._refused = False
        self._alone = True

    def changed(self, *, urgent: bool = False) -> None:
        """Have the load written soon, or at once; waits for nothing."""
        if urgent:
            self._urgent.set()
        self._news.set()

    def beside(self, *, others: bool) -> None:
        """Note whether there are other gateways; a first one is told at once."""
        if self._alone and others:
            self.changed(urgent=True)
        self._alone = not others

    async def wake(self, model: ModelId, for_s: float, clock: Callable[[], float] = time.time) -> float:
        """Ask for a model to be awake for so long; return until when, in Unix seconds: an earlier wish may be longer.

        Raises RegistryUnavailable and RegistryError.
        """
        until = f"{clock() + for_s:.0f}"
        agreed = await self._redis.execute("EVAL", WAKE, 1, WAKES_KEY, model, until, 0)
        self.changed(urgent=True)
        return float(agreed)

    def _farewell(self) -> list[tuple[str, ...]]:
        nothing = GatewayLoad(id=self._id, sequence=self._sequence + 1, revision=self._revision).model_dump_json()
        return [("HDEL", LOADS_KEY, self._id), ("PUBLISH", LOADS_KEY, nothing)]

    async def _run(self) -> None:
        while True:
            await wait_at_most(self._news, self._beat_s)
            self._news.clear()
            self._urgent.clear()
            if await self._write():
                await wait_at_most(self._urgent, PAUSE_ALONE_S if self._alone else PAUSE_S)
            else:
                self._news.set()
                await asyncio.sleep(_AGAIN_S)

    async def _write(self) -> bool:
        """Write the load once; return whether Redis has answered."""
        self._sequence += 1
        load = self._record(self._sequence)
        record, self._revision = load.model_dump_json(), load.revision
        try:
            replies = await self._redis.pipeline(
                [("HSET", LOADS_KEY, self._id, record), ("PUBLISH", LOADS_KEY, record)]
            )
        except RegistryUnavailable:
            return False
        refusals = [reply for reply in replies if isinstance(reply, RegistryError)]
        if refusals and not self._refused:
            log.warning("Redis refuses what this gateway has to do.", extra={"error": str(refusals[0])})
        self._refused = bool(refusals)
        return True
