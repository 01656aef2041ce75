"""The live copy of the registry on a Redis that comes and goes; what Redis itself does is in the integration tests."""

import asyncio
from collections.abc import Sequence

import pytest

from conch_contracts.names import EngineAddress, WorkerUrl
from conch_contracts.records import Heartbeat, Pool
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.liveness import EXPIRY_S
from conch_kit.registry.snapshot_refresh import RegistryReader
from testkit.builders.records import route
from testkit.clock import FakeClock
from testkit.notices import Notices
from testkit.waiting import eventually

URL = "http://127.0.0.1:1"
BEAT = Heartbeat(url=WorkerUrl(URL), sequence=1).model_dump_json().encode()
NO_LIST: list[object] = [[b"", b"", b""]]


def registry(epoch: str, revision: int, *names: str) -> list[object]:
    """Return what Redis answers that holds these models."""
    models = [[f"local/{name}".encode(), route(name).model_dump_json().encode(), []] for name in names]
    return [[epoch.encode(), str(revision).encode(), str(len(models)).encode()], models]


def changes(epoch: str, since: int, revision: int, count: int, *names: str) -> list[object]:
    """Return what Redis answers of which these models have changed since a revision."""
    _, models = registry(epoch, revision, *names)
    return [[epoch.encode(), str(revision).encode(), str(count).encode()], models, str(since).encode()]


class Redis:
    """Holds one process whose sequence number stands still."""

    def __init__(self) -> None:
        self.away = False
        self.list: list[object] = NO_LIST

    async def pipeline(self, commands: Sequence[Sequence[object]]) -> list[object]:
        if self.away:
            raise RegistryUnavailable("away")
        return [self.list, [URL.encode(), BEAT]]


async def test_nobody_can_tell_to_whom_engines_stream_while_redis_is_away_and_shortly_after() -> None:
    redis, clock = Redis(), FakeClock()
    reader = RegistryReader(redis, pools=[Pool.LLM], clock=clock)  # type: ignore[arg-type]

    async def told() -> bool | None:
        await reader.refresh()
        return reader.is_streaming(EngineAddress("h:1"), "chat")

    assert reader.is_streaming(EngineAddress("h:1"), "chat") is None, "it has not been read yet"
    assert await told() is False
    redis.away = True
    assert await told() is None
    redis.away = False
    assert await told() is None, "a stream may have begun meanwhile"
    clock.advance(EXPIRY_S)
    assert await told() is False
    redis.list = registry("new", 1)
    assert await told() is False, "the first list is no other one"
    redis.list = registry("other", 1)
    assert await told() is None, "Redis was emptied"


@pytest.mark.parametrize(("away", "alive"), [(True, [URL]), (False, [])])
async def test_a_process_has_the_full_time_again_only_after_redis_was_away(away: bool, alive: list[str]) -> None:
    redis, clock = Redis(), FakeClock()
    reader = RegistryReader(redis, pools=[Pool.LLM], clock=clock)  # type: ignore[arg-type]

    async def urls() -> list[str]:
        await reader.refresh()
        return [beat.url for beat in reader.snapshot.workers[Pool.LLM]]

    assert await urls() == [URL]
    redis.away = away
    await reader.refresh()
    clock.advance(EXPIRY_S + 1)
    redis.away = False
    assert await urls() == alive
    clock.advance(EXPIRY_S + 1)
    assert await urls() == [], "once only"


async def test_who_waits_for_a_list_that_does_not_come_goes_on_without() -> None:
    reader = RegistryReader(Redis(), pools=[Pool.LLM], clock=FakeClock())  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        assert not await reader.wait_loaded(0.001)
        assert not await reader.wait_answered(0.001)


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        pytest.param(registry("e", 8, "b"), ["local/b"], id="newer"),
        pytest.param(registry("e", 6, "b"), ["local/a"], id="older, of a replica that lags"),
        pytest.param(registry("f", 1, "b"), ["local/b"], id="another life"),
        pytest.param(NO_LIST, ["local/a"], id="emptied"),
        pytest.param([[b"e", b"8", b"5"], []], ["local/a"], id="fewer routes than it says"),
        pytest.param(changes("e", 7, 8, 2, "b"), ["local/a", "local/b"], id="changes of what is known"),
        pytest.param(changes("e", 6, 8, 2, "b"), ["local/a"], id="changes of an earlier list"),
        pytest.param(changes("f", 7, 8, 2, "b"), ["local/a"], id="changes of another life"),
        pytest.param(changes("e", 7, 6, 2, "b"), ["local/a"], id="changes that lead back"),
        pytest.param(changes("e", 7, 8, 5, "b"), ["local/a"], id="changes that leave something out"),
    ],
)
async def test_what_redis_cannot_tell_changes_nothing(answer: list[object], known: list[str]) -> None:
    redis = Redis()
    reader = RegistryReader(redis, pools=[Pool.LLM], clock=FakeClock())  # type: ignore[arg-type]
    redis.list = registry("e", 7, "a")
    await reader.refresh()
    redis.list = answer
    await reader.refresh()
    assert list(reader.snapshot.routes) == known


async def test_news_that_redis_was_too_slow_to_tell_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("conch_kit.registry.snapshot_refresh._BEAT_S", 3600.0)

    class Slow(Notices, Redis):
        """Is away once, just when it has told that there are news."""

        def __init__(self) -> None:
            super().__init__()
            self.failed = 0

        async def pipeline(self, commands: Sequence[Sequence[object]]) -> list[object]:
            if self.away:
                self.away = False
                self.failed += 1
                raise RegistryUnavailable("slow")
            return await super().pipeline(commands)

    redis = Slow()
    redis.list = registry("e", 7, "a")
    async with RegistryReader(redis, pools=[Pool.LLM]) as reader:  # type: ignore[arg-type]
        await eventually(lambda: list(reader.snapshot.routes) == ["local/a"], "the first list")
        await asyncio.sleep(0.01)  # so that nothing but a notice has it look again
        redis.list, redis.away = registry("e", 8, "b"), True
        redis.notices.put_nowait(b"")
        await eventually(lambda: list(reader.snapshot.routes) == ["local/b"], "the news")
    assert redis.failed == 1
