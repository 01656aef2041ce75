"""What those who read and write the registry make of a Redis that is away, refuses them or holds what nobody wrote."""

from collections.abc import Sequence
from typing import Any

import pytest

from conch_contracts.names import ModelId
from conch_contracts.records import GatewayBeat, Pool
from conch_kit.redis.connection import Command
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.heartbeat import HeartbeatWriter
from conch_kit.registry.published_model import PublishedModel, published_model
from conch_kit.registry.woken_models import WokenModels
from conch_kit.registry.writer import Fenced, RegistryWriter
from testkit.builders import records

MODEL = ModelId("local/ear")
ROUTE, ENGINE = records.route("ear"), records.engine()


class Redis:
    """Gives these answers one after the other, or raises them, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[object, ...]] = []

    async def execute(self, *args: object) -> Any:
        self.asked.append(args)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def pipeline(self, commands: Sequence[Command]) -> Any:
        return await self.execute(*commands)


def writer(redis: Redis) -> HeartbeatWriter:
    client: Any = redis
    return HeartbeatWriter(client, Pool.LLM, "http://a", in_flight=lambda: 0, draining=lambda: False)


def raw(record: Any) -> bytes:
    return bytes(record.model_dump_json(), "utf-8")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([raw(ROUTE), [raw(ENGINE)]], PublishedModel(ROUTE, (ENGINE,))),
        ([raw(ROUTE), [b"{", raw(ENGINE)]], PublishedModel(ROUTE, (ENGINE,))),
        ([b"{", [raw(ENGINE)]], None),
        ([None, []], None),
        ([raw(ROUTE), RegistryError("WRONGTYPE")], None),
        (RegistryUnavailable("silent"), None),
    ],
    ids=["published", "an engine that cannot be read", "no route", "gone", "no engines", "away"],
)
async def test_a_model_is_known_as_far_as_it_can_be_read(answer: Any, found: PublishedModel | None) -> None:
    assert await published_model(Redis(answer), MODEL) == found  # type: ignore[arg-type]


async def test_a_wish_that_names_no_time_is_over() -> None:
    redis = Redis([b"team/a", b"soon", b"team/b", b"200.5"], 1)
    assert await WokenModels(redis, clock=lambda: 100.0).read() == {"team/b": 200.5}  # type: ignore[arg-type]
    assert redis.asked[1][-2:] == (b"team/a", b"soon")


async def test_wishes_are_known_though_redis_does_not_let_the_old_ones_go() -> None:
    redis = Redis([b"team/a", b"1", b"team/b", b"200"], RegistryUnavailable("silent"))
    assert await WokenModels(redis, clock=lambda: 100.0).read() == {"team/b": 200.0}  # type: ignore[arg-type]


async def test_a_wish_counts_until_it_is_over_though_redis_has_lost_it_and_takes_it_no_more() -> None:
    times = iter((100.0, 101.0, 199.0, 200.0))
    redis = Redis([b"team/a", b"200"], [], RegistryUnavailable("silent"), [], RegistryError("OOM"), [])
    woken = WokenModels(redis, clock=lambda: next(times))  # type: ignore[arg-type]
    for _ in range(3):
        assert await woken.read() == {"team/a": 200.0}
    assert await woken.read() == {}
    assert len(redis.asked) == 6  # what is over is not written


async def test_a_writer_that_has_written_nothing_does_not_ask_whether_it_stands() -> None:
    redis = Redis()
    assert not await RegistryWriter(redis).is_current()  # type: ignore[arg-type]
    assert redis.asked == []


async def test_a_redis_that_refuses_to_name_the_gateways_is_away_for_the_operator() -> None:
    with pytest.raises(RegistryUnavailable, match="WRONGTYPE"):
        await RegistryWriter(Redis(RegistryError("WRONGTYPE"))).gateways()  # type: ignore[arg-type]


async def test_a_gateway_that_cannot_be_read_hides_no_other() -> None:
    beat = GatewayBeat(id="a", sequence=1, revision=7)
    assert await RegistryWriter(Redis([b"{", raw(beat)])).gateways() == (beat,)  # type: ignore[arg-type]


@pytest.mark.parametrize(("refusal", "kind"), [("FENCED by 8", Fenced), ("OOM", RegistryUnavailable)])
async def test_only_a_newer_writer_ends_an_older_one(refusal: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=refusal):
        await RegistryWriter(Redis(RegistryError(refusal))).publish({})  # type: ignore[arg-type]


@pytest.mark.parametrize("refusal", [RegistryError("OOM"), RegistryUnavailable("silent")])
async def test_a_process_is_announced_once_redis_takes_it(refusal: Exception) -> None:
    redis = Redis(refusal, 1, 0, 1)
    beats = writer(redis)
    for _ in range(3):
        await beats.beat()
    assert [asked[0] for asked in redis.asked] == ["HSET", "HSET", "PUBLISH", "HSET"]


async def test_a_process_that_redis_had_lost_is_announced_again() -> None:
    redis = Redis(1, 0, RegistryUnavailable("silent"), 1, 0)
    beats = writer(redis)
    for _ in range(3):
        await beats.beat()
    assert [asked[0] for asked in redis.asked] == ["HSET", "PUBLISH", "HSET", "HSET", "PUBLISH"]
