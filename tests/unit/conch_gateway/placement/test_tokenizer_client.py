"""How long a tokenizer may take over a call, apart from the wait for one that is away; on fakes."""

import asyncio
from collections.abc import Callable

import pytest

from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import Heartbeat, Pool, RoutingPolicy
from conch_gateway.placement.attempts import ServiceProcesses
from conch_gateway.placement.pool_return import PoolReturn
from conch_gateway.placement.retry_budget import RetryBudget
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.placement.waiting_room import WaitingRoom
from conch_gateway.upstream.port import ConnectFailed, Post
from conch_kit.errors import Unavailable
from testkit.clock import FakeClock
from testkit.gateway.fakes import FakeAnswer, FakeUpstream, lost, route, snapshot

LIMIT_S = 60.0
ROUTE = route(routing=RoutingPolicy(queue_wait_s=1000.0))


class Busy(FakeAnswer):
    """An answer that does not stand there at once: a limit that is used up ends it."""

    async def read(self) -> bytes:
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().read()


class Tokenizer:
    """The only tokenizer: it fails once, and is announced; to wait for a turn takes `wait_s`, to fail `work_s`."""

    def __init__(self, failure: Exception, *, wait_s: float = 0.0, work_s: float = 0.0) -> None:
        self.clock = FakeClock()
        self._failures = iter([failure])
        self._wait_s = wait_s
        self._work_s = work_s
        self._beats = snapshot().workers[Pool.TOKENIZER]
        line = PoolReturn("tokenizer", lambda: True, self._turn, WaitingRoom(1000))
        budget = RetryBudget(lambda: None)
        processes = ServiceProcesses(
            "tokenizer", FakeUpstream({PREPARE_PATH: self._answer}), lambda: self._beats, budget, line
        )
        self.client = TokenizerClient(processes, timeout_s=LIMIT_S, clock=self.clock)

    def _turn(self) -> tuple[Heartbeat, ...]:
        self.clock.advance(self._wait_s)
        return tuple(self._beats)

    def _answer(self, _: Post) -> FakeAnswer | Exception:
        failure = next(self._failures, None)
        if failure is not None:
            self.clock.advance(self._work_s)
        return failure or Busy(pieces=(b"{}",))

    async def asked(self) -> bytes:
        """Return what it answers."""
        async with asyncio.timeout(60):
            return await self.client.post(PREPARE_PATH, b"{}", (), ROUTE)


@pytest.mark.parametrize("failure", [lambda: ConnectFailed("gone"), lost], ids=["no connection", "breaks off"])
async def test_the_wait_for_a_tokenizer_is_not_counted_as_its_own_time(failure: Callable[[], Exception]):
    assert await Tokenizer(failure(), wait_s=2 * LIMIT_S).asked() == b"{}"


async def test_the_time_of_an_attempt_that_failed_is_counted():
    with pytest.raises(Unavailable, match=r"The prompt was not tokenized within 60 s\."):
        await Tokenizer(lost(), work_s=2 * LIMIT_S).asked()
