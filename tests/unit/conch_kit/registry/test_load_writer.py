import asyncio
from collections.abc import Sequence

import pytest

from conch_contracts.names import LOADS_KEY
from conch_contracts.records import GatewayLoad
from conch_kit import background_loops
from conch_kit.redis.connection import Command
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry import load_writer
from conch_kit.registry.load_writer import LoadWriter
from testkit.waiting import eventually

ID = "me"


class _Redis:
    """Answers as it is told to, and keeps what it was sent."""

    def __init__(self, *answers: Exception | list[object]) -> None:
        self._answers = list(answers)
        self.tries = 0
        self.sent: list[Sequence[Command]] = []

    async def pipeline(self, commands: Sequence[Command]) -> list[object]:
        self.tries += 1
        answer = self._answers.pop(0) if self._answers else []
        if isinstance(answer, Exception):
            raise answer
        self.sent.append(commands)
        return answer


def _writer(redis: _Redis, *, beat_s: float = 3600.0) -> LoadWriter:
    def record(sequence: int) -> GatewayLoad:
        return GatewayLoad(id=ID, sequence=sequence, revision=7)

    return LoadWriter(redis, ID, record, beat_s=beat_s)  # type: ignore[arg-type]


async def test_what_changes_at_once_is_written_at_once_and_together() -> None:
    redis = _Redis()
    async with _writer(redis) as writer:
        for _ in range(100):
            writer.changed()
        await eventually(lambda: redis.sent, "the record")
        ((hset, publish),) = redis.sent
        assert hset[:3] == ("HSET", LOADS_KEY, ID)
        assert publish == ("PUBLISH", LOADS_KEY, hset[3])


async def test_changes_wait_for_the_end_of_a_pause_and_what_is_urgent_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_writer, "PAUSE_S", 3600.0)
    monkeypatch.setattr(load_writer, "PAUSE_ALONE_S", 3600.0)
    redis = _Redis()
    async with _writer(redis) as writer:
        writer.changed()
        await eventually(lambda: len(redis.sent) == 1, "the first record")
        writer.changed()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(redis.sent) == 1
        writer.changed(urgent=True)
        await eventually(lambda: len(redis.sent) == 2, "the urgent record")
        writer.changed()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(redis.sent) == 2, "what was urgent is over"


async def test_a_gateway_pauses_longer_alone_and_another_one_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_writer, "PAUSE_ALONE_S", 3600.0)
    redis = _Redis()
    async with _writer(redis) as writer:
        writer.changed()
        await eventually(lambda: len(redis.sent) == 1, "the first record")
        writer.beside(others=True)
        await eventually(lambda: len(redis.sent) == 2, "the record for the newcomer")
        writer.beside(others=True)
        writer.changed()
        await eventually(lambda: len(redis.sent) == 3, "the record after a short pause")


async def test_what_has_not_changed_is_not_written_before_its_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_writer, "PAUSE_ALONE_S", 0.0)
    redis = _Redis()
    async with _writer(redis) as writer:
        writer.changed()
        await eventually(lambda: len(redis.sent) == 1, "the record")
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(redis.sent) == 1


async def test_without_a_change_a_record_comes_again_and_again() -> None:
    redis = _Redis()
    async with _writer(redis, beat_s=0.001):
        await eventually(lambda: len(redis.sent) >= 3, "three records")


async def test_what_redis_does_not_take_is_written_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_writer, "_AGAIN_S", 0.0)
    redis = _Redis(*[RegistryUnavailable("silent")] * 3)
    async with _writer(redis) as writer:
        writer.changed()
        await eventually(lambda: redis.sent, "the record")
    assert redis.tries == 5  # with the farewell


async def test_who_ends_has_applied_what_it_had_said() -> None:
    redis = _Redis()
    async with _writer(redis) as writer:
        writer.changed()
        await eventually(lambda: redis.sent, "the record")
    assert GatewayLoad.model_validate_json(redis.sent[-1][1][2]) == GatewayLoad(id=ID, sequence=2, revision=7)


async def test_a_fault_of_ours_ends_no_gateway_for_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_loops, "AGAIN_S", 0.0)
    redis, faults = _Redis(), [KeyError("a queue that has gone")]

    def record(sequence: int) -> GatewayLoad:
        if faults:
            raise faults.pop()
        return GatewayLoad(id=ID, sequence=sequence)

    async with LoadWriter(redis, ID, record, beat_s=0.001):  # type: ignore[arg-type]
        await eventually(lambda: redis.sent, "a record after the fault")
    assert [record.message for record in caplog.records] == ["A loop has failed by a fault of Conch; it begins again."]


async def test_a_redis_that_refuses_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    refusal: list[object] = [RegistryError("NOPERM"), RegistryError("NOPERM")]
    redis = _Redis(refusal, refusal, [1, 1], refusal)
    async with _writer(redis, beat_s=0.001):
        await eventually(lambda: len(redis.sent) >= 4, "four records")
    assert [record.message for record in caplog.records] == ["Redis refuses what this gateway has to do."] * 2


async def test_a_gateway_that_ends_takes_its_record_away_and_says_that_it_has_nothing() -> None:
    redis = _Redis(RegistryUnavailable("a pause"))
    async with _writer(redis):
        pass
    (farewell,) = redis.sent
    assert farewell[0] == ("HDEL", LOADS_KEY, ID)
    assert GatewayLoad.model_validate_json(farewell[1][2]) == GatewayLoad(id=ID, sequence=1)
