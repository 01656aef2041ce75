"""What is read at once of a Redis that answers, is away or refuses; how notices are heard is in `integration/`."""

from typing import Any

import pytest

from conch_contracts.names import ModelId
from conch_contracts.records import GatewayLoad
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.demand_reader import DemandReader
from testkit.clock import FakeClock
from testkit.notices import Notices
from testkit.waiting import eventually


class Redis:
    """Answers with these records of loads, and with no wishes; or fails."""

    def __init__(self) -> None:
        self.loads: list[bytes] = []
        self.failure: Exception | None = None

    async def execute(self, command: str, *args: object) -> list[bytes] | None:
        if self.failure is not None:
            raise self.failure
        if command == "HGET":
            return None  # a registry that nobody has written yet
        return self.loads if command == "HVALS" else []


def load(name: str, sequence: int = 1) -> bytes:
    return GatewayLoad(id=name, sequence=sequence).model_dump_json().encode()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def redis() -> Redis:
    return Redis()


@pytest.fixture
def book(clock: FakeClock) -> DemandBook:
    return DemandBook(clock)


@pytest.fixture
def heard() -> list[Any]:
    return []


@pytest.fixture
def reader(redis: Redis, book: DemandBook, heard: list[Any]) -> DemandReader:
    return DemandReader(redis, book, heard.append)  # type: ignore[arg-type]


async def test_all_that_redis_holds_is_news(redis: Redis, book: DemandBook, reader: DemandReader, heard: Any) -> None:
    redis.loads = [load("a"), b"{"]
    await reader.refresh()
    assert (book.away, heard) == (False, [set()])


@pytest.mark.parametrize("failure", [RegistryUnavailable("silent"), RegistryError("WRONGTYPE")], ids=repr)
async def test_a_redis_that_cannot_be_heard_is_away_and_no_news(
    failure: Exception, redis: Redis, book: DemandBook, reader: DemandReader, heard: Any
) -> None:
    redis.loads = [load("a")]
    await reader.refresh()
    redis.failure = failure
    await reader.refresh()
    assert (book.away, heard) == (True, [set()])


async def test_gateways_have_all_their_time_again_when_redis_is_back(
    redis: Redis, book: DemandBook, reader: DemandReader, clock: FakeClock
) -> None:
    redis.loads = [load("a")]
    await reader.refresh()
    redis.failure = RegistryUnavailable("silent")
    await reader.refresh()
    clock.advance(10.0)
    redis.failure = None
    await reader.refresh()
    assert book.of(ModelId("ns/m"), ["a"]).complete


async def test_a_gateway_that_has_gone_is_not_remembered_for_ever(
    redis: Redis, book: DemandBook, reader: DemandReader, clock: FakeClock
) -> None:
    redis.loads = [load("a", sequence=7)]
    await reader.refresh()
    clock.advance(3600.0)
    redis.loads = [load("b")]
    await reader.refresh()
    assert book.hear(GatewayLoad(id="a", sequence=1)), "What it said an hour ago counts."


async def test_a_wish_that_redis_was_too_slow_to_tell_is_asked_for_again(book: DemandBook, heard: list[Any]) -> None:
    class Slow(Notices, Redis):
        """Tells of a record, and is away once when the wishes are asked for then."""

        def __init__(self) -> None:
            super().__init__()
            self.wishes: list[bytes] = []
            self.away = False

        async def execute(self, command: str, *args: object) -> list[bytes]:
            if command == "HGETALL":
                if self.away:
                    self.away = False
                    raise RegistryUnavailable("slow")
                return self.wishes
            return await super().execute(command, *args)

    redis = Slow()
    async with DemandReader(redis, book, heard.append, unix_time=lambda: 1.0, list_s=3600):  # type: ignore[arg-type]
        await eventually(lambda: heard == [set()], "the list")
        redis.wishes, redis.away = [b"local/a", b"60"], True
        redis.notices.put_nowait(load("g"))
        await eventually(lambda: {ModelId("local/a")} in heard, "the wish")
    assert not redis.away
