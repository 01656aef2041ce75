from collections.abc import Sequence

import pytest

from conch_contracts.names import workers_key
from conch_contracts.records import Pool
from conch_kit.redis.connection import Command
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.heartbeat import HeartbeatWriter

URL = "http://127.0.0.1:7002"


class Redis:
    """Fails at first as it is told to, and keeps the keys of the commands that it was sent in one go."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.sent: list[tuple[object, object]] = []

    async def pipeline(self, commands: Sequence[Command]) -> list[object]:
        if self._failures:
            raise self._failures.pop(0)
        self.sent += [(command[0], command[1]) for command in commands]
        return []


def writer(redis: Redis) -> HeartbeatWriter:
    return HeartbeatWriter(redis, Pool.LLM, URL, in_flight=lambda: 0, draining=lambda: False)  # type: ignore[arg-type]


@pytest.mark.parametrize(("pauses", "told"), [(0, True), (2, True), (3, False)])
async def test_a_process_that_ends_says_so_though_redis_pauses_for_a_moment(pauses: int, told: bool) -> None:
    redis = Redis(*[RegistryUnavailable("silent")] * pauses)
    await writer(redis).__aexit__(None, None, None)
    assert (("HDEL", workers_key(Pool.LLM)) in redis.sent) is told


async def test_a_redis_that_refuses_a_farewell_is_not_asked_again() -> None:
    redis = Redis(RegistryError("NOPERM"))
    await writer(redis).__aexit__(None, None, None)
    assert redis.sent == []
