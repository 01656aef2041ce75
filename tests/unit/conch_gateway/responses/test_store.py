"""How long the store of responses may take over a command, and for which ids it is not asked at all."""

from typing import Any

import pytest

from conch_gateway.responses.store import LARGE_BYTES, TRANSFER_S, RedisResponses, ResponseNote
from conch_kit.errors import Unavailable
from conch_kit.redis.errors import RegistryError, RegistryUnavailable

ID = "resp_" + "a" * 32


class Redis:
    """Answers nothing, and notes what it is asked and how long it may take; or is away."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[tuple[str, float | None]] = []
        self._failure = failure

    async def execute(self, *command: Any, timeout_s: float | None = None) -> None:
        self.asked.append((command[0], timeout_s))
        if self._failure is not None:
            raise self._failure


async def test_a_record_has_the_time_that_its_transfer_takes() -> None:
    redis = Redis()
    store = RedisResponses(redis, 60)
    await store.get("ann", ID)
    await store.put("ann", ID, b"x" * (LARGE_BYTES + 1))
    await store.put("ann", ID, b"x")
    assert redis.asked == [("GET", TRANSFER_S), ("SET", TRANSFER_S), ("SET", None)]


@pytest.mark.parametrize("made_up", ["", "resp_1", ID + "*", "../" + ID, ID + "\n"])
async def test_the_store_is_not_asked_for_an_id_that_is_none_of_ours(made_up: str) -> None:
    redis = Redis()
    store = RedisResponses(redis, 60)
    assert (await store.get("ann", made_up), await store.delete("ann", made_up)) == (None, False)
    assert redis.asked == []


@pytest.mark.parametrize("failure", [RegistryUnavailable("away"), RegistryError("no")])
async def test_a_store_that_is_away_or_refuses_is_told_from_one_that_has_nothing(failure: Exception) -> None:
    store = RedisResponses(Redis(failure), 60)
    for asking in (
        store.get("ann", ID),
        store.delete("ann", ID),
        store.note("ann", ID, ResponseNote.STOP),
        store.leave_note("ann", ID, ResponseNote.LEASE, "queued", 1),
    ):
        with pytest.raises(Unavailable) as told:
            await asking
        assert told.value.code == "store_unavailable"
    assert not await store.put("ann", ID, b"x")
