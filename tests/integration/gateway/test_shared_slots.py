"""Several gateways keep an engine to its slots: real processes on one Redis, before a worker that counts."""

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from conch_contracts.names import GENERATE_PATH, EngineAddress
from conch_contracts.records import Engine, RoutingPolicy
from testkit.gateway.fakes import route
from testkit.gateway.process import Process, answers, gateway_beside, gateway_process
from testkit.servers.scripted_http import Call
from testkit.waiting import eventually

LIMIT_S = 300.0
SLOTS = 4
CALLERS = 8
"""Of each gateway: more than there are slots, so that there is always somebody who waits."""
WORK_S = 0.15
"""Three beats."""
BODY = json.dumps({"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}).encode()
PATIENT = route(routing=RoutingPolicy(queue_wait_s=200.0))


class _Engine:
    """Works on every request for a while, and counts how many there are at once."""

    def __init__(self) -> None:
        self.at_once = 0
        self.inside: Counter[str] = Counter()
        """How many of them are of each gateway."""
        self.most = 0
        self.beside: list[int] = []
        """How many there were at once whenever another one came."""
        self.served: Counter[str] = Counter()
        self.failed: list[bytes] = []
        """What callers got that is no answer."""

    async def script(self, call: Call) -> None:
        if call.path != GENERATE_PATH:
            await answers(call)
            return
        name = call.headers["x-request-id"]
        self.at_once += 1
        self.inside[name] += 1
        self.most = max(self.most, self.at_once)
        self.beside.append(self.at_once)
        gone = asyncio.create_task(call.closed())
        try:
            await asyncio.wait([gone], timeout=WORK_S)  # the work itself, or until its gateway dies
        finally:
            gone.cancel()
            await asyncio.wait([gone])
            self.at_once -= 1
            self.inside[name] -= 1
        self.served[name] += 1
        await answers(call)

    def keeps_to_slots(self, gateways: int) -> bool:
        """Tell whether there were seldom more than slots; of one that comes free all gateways may hear at once.

        Where a busy machine makes a beat late, each has another chance to. One alone never takes more.
        """
        more = sum(at_once > SLOTS + gateways - 1 for at_once in self.beside)
        most = SLOTS * gateways - 1 if gateways > 1 else SLOTS
        return more <= 0.05 * len(self.beside) and max(self.beside) <= most

    async def serves(self, *names: str, count: int = 20) -> None:
        """Wait until each of these gateways has had so many more answers."""
        before = self.served.copy()

        def done() -> bool:
            assert not self.failed
            return all(self.served[name] - before[name] >= count for name in names)

        await eventually(done, "work", LIMIT_S)


class _Callers:
    """Clients of one gateway, each with the next request as soon as it has an answer."""

    def __init__(self, gateway: Process, name: str, engine: _Engine, stack: AsyncExitStack) -> None:
        self._engine = engine
        self._tasks = [asyncio.create_task(self._ask(gateway, name)) for _ in range(CALLERS)]
        stack.push_async_callback(self.stop)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, gateway: Process, name: str) -> None:
        while True:
            status, _, body = await gateway.post("/v1/chat/completions", BODY, f"x-request-id: {name}")
            if status != 200:
                self._engine.failed.append(body)


@asynccontextmanager
async def _gateways(
    folder: Path, count: int, **settings: str
) -> AsyncIterator[tuple[list[Process], _Engine, AsyncExitStack]]:
    engine = _Engine()
    async with AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
        folders = [folder / str(number) for number in range(count)]
        for each in folders:
            each.mkdir()
        engines = (Engine(grpc=EngineAddress("e:1"), slots=SLOTS),)
        gateways = [await stack.enter_async_context(gateway_process(folders[0], PATIENT, engines=engines, **settings))]
        for each in folders[1:]:
            gateways.append(await stack.enter_async_context(gateway_beside(gateways[0], each, **settings)))
        gateways[0].backend.script = engine.script
        async with AsyncExitStack() as callers:
            yield gateways, engine, callers


@pytest.mark.parametrize("count", [2, 3])
async def test_gateways_that_come_one_after_the_other_share_the_slots(tmp_path: Path, count: int) -> None:
    async with _gateways(tmp_path, count) as (gateways, engine, stack):
        names = [str(number) for number in range(count)]
        for name, gateway in zip(names, gateways, strict=True):
            _Callers(gateway, name, engine, stack)
            await engine.serves(*names[: int(name) + 1])
        assert engine.keeps_to_slots(count), engine.beside
        before, began = engine.served.copy(), time.monotonic()
        await engine.serves(*names, count=30)
        took_s, served = time.monotonic() - began, engine.served - before
        assert min(served.values()) > 0.5 * max(served.values()), served
        assert engine.keeps_to_slots(count), engine.beside
        assert served.total() * WORK_S / took_s > 0.5 * SLOTS, "the slots are used"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("count", [2, 3])
async def test_the_slots_of_a_gateway_that_is_gone_go_to_the_others(
    tmp_path: Path, count: int, number: signal.Signals
) -> None:
    async with _gateways(tmp_path, count) as (gateways, engine, stack):
        staying = [str(name) for name in range(count - 1)]
        for name, gateway in zip(staying, gateways, strict=False):
            _Callers(gateway, name, engine, stack)
        lost = _Callers(gateways[-1], "goes", engine, stack)
        await engine.serves(*staying, "goes")
        gateways[-1].process.send_signal(number)
        took_s = await eventually(
            lambda: sum(engine.inside[name] for name in staying) >= SLOTS, "all slots in other hands", 60
        )
        assert took_s < 12  # six seconds of silence, and what a busy machine takes
        engine.beside = []
        await engine.serves(*staying)
        assert engine.keeps_to_slots(len(staying)), engine.beside
        if number is signal.SIGSTOP:
            gateways[-1].process.send_signal(signal.SIGCONT)
            await engine.serves(*staying, "goes")
            engine.beside = []
            await engine.serves(*staying, "goes")
            assert engine.keeps_to_slots(count), engine.beside
        await lost.stop()


async def test_without_redis_each_gateway_has_an_equal_part(tmp_path: Path) -> None:
    async with _gateways(tmp_path, 2, redis_timeout_s="1") as (gateways, engine, stack):
        for name, gateway in zip("ab", gateways, strict=True):
            _Callers(gateway, name, engine, stack)
        await engine.serves("a", "b")
        gateways[0].redis.freeze()
        await engine.serves("a", "b", count=80)  # six seconds; after two and a half it is noticed
        engine.most = 0
        await engine.serves("a", "b")
        assert engine.most == SLOTS
        gateways[0].redis.thaw()
        await engine.serves("a", "b")
