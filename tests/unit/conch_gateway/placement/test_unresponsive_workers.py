import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from conch_contracts.names import WorkerUrl
from conch_gateway.placement.unresponsive_workers import UnresponsiveWorkers
from conch_gateway.upstream.port import ConnectTimedOut, Post, UpstreamResponse
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import FakeAnswer

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
