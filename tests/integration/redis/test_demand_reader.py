"""What gateways have to do, heard from a real Redis: at once as it is published, and soon where nobody publishes."""

import asyncio
import time
from collections.abc import Callable

from conch_contracts.names import LOADS_KEY, WAKES_KEY, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_kit.redis.client import RedisClient
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.demand_reader import DemandReader

TINY = ModelId("local/tiny")


def record(sequence: int, held: int) -> str:
    return GatewayLoad(id="g", sequence=sequence, models={TINY: ModelDemand(held=held)}).model_dump_json()


class Heard:
    """Wakes whoever waits for something to be known."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self, _: GatewayLoad | None) -> None:
        self._event.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await self._event.wait()
                self._event.clear()


async def test_records_are_heard_by_notice_and_by_list_and_wishes_with_them(client: RedisClient) -> None:
    book, heard = DemandBook(time.monotonic), Heard()
    await client.execute("HSET", LOADS_KEY, "g", record(1, 1))
    async with DemandReader(client, book, heard, unix_time=lambda: 1000.0):
        await heard.until(lambda: book.of(TINY, {"g"}).sequences == 1)
        assert book.of(TINY, {"g"}).complete
        await client.execute("HSET", LOADS_KEY, "g", record(2, 2))
        await heard.until(lambda: book.of(TINY, {"g"}).sequences == 2)
        await client.execute("HSET", WAKES_KEY, TINY, "1060", "local/other", "999", "local/bad", "soon")
        await heard.until(lambda: book.awake_until == {TINY: 1060.0})
        await heard.until(lambda: book.of(TINY, {"g"}).sequences == 2)
        published = 2
        while book.of(TINY, {"g"}).sequences != 9:  # a notice is lost while nobody has subscribed yet
            published += 1
            await client.execute("PUBLISH", LOADS_KEY, record(published, 9))
            await asyncio.sleep(0.01)
        assert await client.execute("HKEYS", WAKES_KEY) == [TINY.encode()]


async def test_what_cannot_be_read_is_not_taken_for_all(client: RedisClient) -> None:
    book = DemandBook(time.monotonic)
    await client.execute("HSET", LOADS_KEY, "g", record(1, 1), "broken", "{")
    reader = DemandReader(client, book, lambda _: None)
    await reader.refresh()
    assert book.of(TINY, {"g"}).complete
    await client.execute("DEL", LOADS_KEY)
    await client.execute("SET", LOADS_KEY, "no hash")
    await reader.refresh()
    assert not book.of(TINY, {"g"}).complete
    assert book.of(TINY, {"g"}).sequences == 1
