"""How long a tokenizer may take over a call, apart from the wait for one that is away; on fakes."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.names import PREPARE_PATH, WorkerUrl
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
            return await self.client.post(PREPARE_PATH, b"{}", (), ROUTE, lambda answer: answer)


@pytest.mark.parametrize("failure", [lambda: ConnectFailed("gone"), lost], ids=["no connection", "breaks off"])
async def test_the_wait_for_a_tokenizer_is_not_counted_as_its_own_time(failure: Callable[[], Exception]):
    assert await Tokenizer(failure(), wait_s=2 * LIMIT_S).asked() == b"{}"


async def test_the_time_of_an_attempt_that_failed_is_counted():
    with pytest.raises(Unavailable, match=r"The prompt was not tokenized within 60 s\."):
        await Tokenizer(lost(), work_s=2 * LIMIT_S).asked()


class Tokenizers:
    """Several of them, each of which gives its answer whenever it is asked."""

    def __init__(self, *answers: FakeAnswer) -> None:
        self._beats = tuple(
            Heartbeat(url=WorkerUrl(f"http://t{at}"), sequence=1, in_flight=0) for at in range(len(answers))
        )
        self._answers = dict(zip((beat.url for beat in self._beats), answers, strict=True))
        self.asked: list[WorkerUrl] = []
        line = PoolReturn("tokenizer", lambda: True, lambda: self._beats, WaitingRoom(1000))
        upstream = FakeUpstream({PREPARE_PATH: self._answer})
        processes = ServiceProcesses("tokenizer", upstream, lambda: self._beats, RetryBudget(lambda: None), line)
        self.client = TokenizerClient(processes, timeout_s=LIMIT_S)

    def _answer(self, post: Post) -> FakeAnswer:
        self.asked.append(post.url)
        return replace(self._answers[post.url])

    async def prepared(self) -> PrepareResponse:
        """Return what they answer."""
        return await self.client.post(PREPARE_PATH, b"{}", (), ROUTE, partial(from_json, PrepareResponse))


NONSENSE = {
    "nothing": FakeAnswer(pieces=()),
    "null": FakeAnswer(pieces=(b"null",)),
    "no JSON": FakeAnswer(pieces=(b"\xff\xfe",)),
    "no prompts": FakeAnswer(pieces=(b"{}",)),
    "negative ids": FakeAnswer(pieces=(b'{"prompts":[{"ids":[-1],"text":"x"}]}',)),
    "ids that no engine takes": FakeAnswer(pieces=(b'{"prompts":[{"ids":[2147483648],"text":"x"}]}',)),
    "a refusal without its error": FakeAnswer(status=400, pieces=(b"no",)),
    "a refusal without an end": FakeAnswer(status=400, pieces=(b"x" * 100_000,) * 10),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
async def test_a_tokenizer_that_talks_nonsense_counts_as_gone(nonsense: FakeAnswer) -> None:
    good = FakeAnswer(pieces=(b'{"prompts":[{"ids":[1],"text":"x"}]}',))
    both = Tokenizers(nonsense, good)
    for _ in range(2):
        assert (await both.prepared()).prompts[0].ids == (1,)
    assert len(both.asked) > 2
    alone = Tokenizers(nonsense)
    with pytest.raises(Unavailable, match="No tokenizer"):
        await alone.prepared()
