import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from conch_contracts.names import WorkerUrl
from conch_gateway.placement.unresponsive_workers import UnresponsiveWorkers
from conch_gateway.upstream.port import ConnectTimedOut, Post, UpstreamResponse
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import FakeAnswer, snapshot
from testkit.waiting import eventually

URL = WorkerUrl("http://127.0.0.1:9001")


class Connections:
    """One process that owes an answer, and that takes a connection only after so many that it did not take in time."""

    def __init__(self, missed: int) -> None:
        self._missed = missed
        self._owed = {URL}
        self.over = asyncio.Event()
        self.lost = 0

    def awaited(self) -> set[WorkerUrl]:
        return self._owed

    def give_up(self, url: WorkerUrl) -> int:
        self.lost += 1
        self.over.set()
        return 1

    @asynccontextmanager
    async def post(self, request: Post) -> AsyncIterator[UpstreamResponse]:
        await asyncio.sleep(0)
        if self._missed:
            self._missed -= 1
            raise ConnectTimedOut("none within 1 s")
        self._owed = set()
        self.over.set()
        yield FakeAnswer(status=404)


@pytest.mark.parametrize(("missed", "patience_s", "lost"), [(3, 600, 0), (10**9, 0.05, 1)])
async def test_one_missed_connection_is_no_silence_yet(missed: int, patience_s: float, lost: int) -> None:
    connections = Connections(missed)
    async with UnresponsiveWorkers(connections, patience_s) as unresponsive:
        unresponsive.look(Snapshot.EMPTY)
        async with asyncio.timeout(60):
            await connections.over.wait()
    assert connections.lost == lost


class Owing:
    """One process that owes an answer while `owes` is set; asked for a sign of life, it gives one or is silent."""

    def __init__(self, *, owes: bool = True, alive: bool = False) -> None:
        self.owes = owes
        self.alive = alive
        self.asked = 0
        self.left = 0
        self.over = asyncio.Event()

    def awaited(self) -> set[WorkerUrl]:
        return {URL} if self.owes else set()

    def give_up(self, url: WorkerUrl) -> int:
        self.over.set()
        return 1

    @asynccontextmanager
    async def post(self, request: Post) -> AsyncIterator[UpstreamResponse]:
        self.asked += 1
        try:
            if not self.alive:
                await asyncio.Event().wait()
            yield FakeAnswer()
        finally:
            self.left += 1


def announced(*urls: WorkerUrl) -> Snapshot:
    return snapshot(workers=urls, tokenizers=())


async def test_a_request_that_was_being_sent_when_its_process_vanished_is_found() -> None:
    connections = Owing(owes=False)
    async with UnresponsiveWorkers(connections, 0.02) as unresponsive:
        unresponsive.look(announced(URL))
        unresponsive.look(announced())
        connections.owes = True
        async with asyncio.timeout(60):
            await connections.over.wait()


async def test_one_that_is_announced_is_not_asked_for_a_sign_of_life() -> None:
    connections = Owing()
    async with UnresponsiveWorkers(connections, 600) as unresponsive:
        unresponsive.look(announced(URL))
        await asyncio.sleep(0)
    assert connections.asked == 0


@pytest.mark.parametrize("owes", [False, True], ids=["it has answered", "it is back"])
async def test_one_that_is_back_or_owes_nothing_any_more_is_asked_no_more(owes: bool) -> None:
    connections = Owing(alive=True)
    async with UnresponsiveWorkers(connections, 0.01) as unresponsive:
        unresponsive.look(announced())
        unresponsive.look(announced())  # it is not asked twice at once
        await eventually(lambda: connections.left == 1, "the answer")
        assert connections.asked == 1
        if owes:
            unresponsive.look(announced(URL))
        else:
            connections.owes = False
        await asyncio.sleep(0.05)  # longer than between two questions
    assert connections.asked == 1
    assert not connections.over.is_set()


async def test_nobody_is_asked_any_more_once_the_gateway_ends() -> None:
    connections = Owing()
    async with UnresponsiveWorkers(connections, 0.01) as unresponsive:
        unresponsive.look(announced(URL))
        unresponsive.look(announced())
        await asyncio.sleep(0)
    assert (connections.asked, connections.left) == (1, 1)
    await asyncio.sleep(0.05)  # longer than until the second look
    assert connections.asked == 1
