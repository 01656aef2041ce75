"""Processes that vanish from the registry while they owe answers, played by real servers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conch_contracts.names import ServedName, WorkerUrl
from conch_contracts.records import ModelKind
from conch_gateway.placement.unresponsive_workers import UnresponsiveWorkers
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_gateway.upstream.port import AnswerLost, Post, read_all
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import route, snapshot
from testkit.gateway.process import Process, gateway_process
from testkit.processes.embed_worker import EmbedWorker
from testkit.servers.scripted_http import Call, ScriptedHttp

WORK = "/internal/v1/encode"
AT_ONCE_S = 0.2
SOON_S = 2.0
"""Long enough to send a request in, on any machine."""
LONG_S = 600.0
LIMIT_S = 120.0


class Worker:
    """A server that holds back its answers to work until it may give them; a frozen one gives none to anything."""

    def __init__(self, *, frozen: bool) -> None:
        self.frozen = frozen
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.other = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        if call.path == WORK:
            self.asked.set()
            await self.go_on.wait()
        else:
            self.other.set()
            if self.frozen:
                await call.closed()
        await call.answer(b"{}", status=200 if call.path == WORK else 404)


@asynccontextmanager
async def asked(
    worker: Worker, patience_s: float
) -> AsyncIterator[tuple[ScriptedHttp, UnresponsiveWorkers, asyncio.Task[bytes]]]:
    """Give a worker that has one request, and who looks after it."""
    async with (
        ScriptedHttp(worker) as server,
        ConnectionPool() as pool,
        UnresponsiveWorkers(pool, patience_s) as unresponsive,
    ):

        async def ask() -> bytes:
            async with pool.post(Post(WorkerUrl(server.url), WORK, (), b"{}")) as answer:
                return await read_all(answer, limit=100)

        work = asyncio.create_task(ask())
        await worker.asked.wait()
        yield server, unresponsive, work
        await asyncio.gather(work, return_exceptions=True)


async def test_the_requests_of_a_frozen_one_are_taken_from_it() -> None:
    async with asyncio.timeout(LIMIT_S), asked(Worker(frozen=True), AT_ONCE_S) as (server, unresponsive, work):
        unresponsive.look(Snapshot.EMPTY)
        with pytest.raises(AnswerLost) as lost:
            await work
    assert not lost.value.started
    assert [call.path for call in server.calls].count(WORK) == 1


async def test_a_request_that_was_being_sent_when_it_froze_is_taken_too() -> None:
    async with asyncio.timeout(LIMIT_S), ScriptedHttp(Worker(frozen=True)) as server, ConnectionPool() as pool:
        url = WorkerUrl(server.url)
        async with UnresponsiveWorkers(pool, SOON_S) as unresponsive:
            unresponsive.look(snapshot(workers=(url,)))
            unresponsive.look(Snapshot.EMPTY)
            with pytest.raises(AnswerLost):
                async with pool.post(Post(url, WORK, (), b"{}")):
                    pass


async def test_one_that_answers_something_keeps_them() -> None:
    worker = Worker(frozen=False)
    async with asyncio.timeout(LIMIT_S), asked(worker, LONG_S) as (_, unresponsive, work):
        unresponsive.look(Snapshot.EMPTY)
        await worker.other.wait()
        worker.go_on.set()
        assert await work == b"{}"


async def test_one_that_ends_in_good_order_keeps_them() -> None:
    worker = Worker(frozen=False)
    async with asyncio.timeout(LIMIT_S), asked(worker, LONG_S) as (server, unresponsive, work):
        server.stop_listening()
        unresponsive.look(Snapshot.EMPTY)
        worker.go_on.set()
        assert await work == b"{}"


async def test_one_that_is_in_the_registry_is_not_asked() -> None:
    worker = Worker(frozen=True)
    async with asyncio.timeout(LIMIT_S), asked(worker, AT_ONCE_S) as (server, unresponsive, work):
        unresponsive.look(snapshot(workers=(WorkerUrl(server.url),)))
        worker.go_on.set()
        assert await work == b"{}"
        assert not worker.other.is_set()


async def test_who_owes_nothing_is_not_asked() -> None:
    worker = Worker(frozen=True)
    async with asyncio.timeout(LIMIT_S), asked(worker, AT_ONCE_S) as (_, unresponsive, work):
        worker.go_on.set()
        await work
        unresponsive.look(Snapshot.EMPTY)
    assert not worker.other.is_set()


OK = b"HTTP/1.1 200 OK"


async def embedded(gateway: Process) -> bytes:
    """Ask for one vector and return the first line of the answer."""
    body = b'{"model":"enc","input":"hi"}'
    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    return (await gateway.raw(head + body, wait_s=LIMIT_S)).partition(b"\r\n")[0]


def was_asked(worker: EmbedWorker) -> bool:
    """Tell whether the worker has counted a request."""
    with urlopen(f"{worker.admin_url}/metrics") as scrape:
        counted = text_string_to_metric_families(scrape.read().decode())
    requests = (family for family in counted if family.name == "conch_embed_worker_requests")
    return any(sample.value for family in requests for sample in family.samples)


async def test_a_frozen_embed_worker_keeps_nobody_waiting(tmp_path: Path) -> None:
    encoder = route(kind=ModelKind.EMBEDDING, served_names=(ServedName("enc"),))
    async with gateway_process(tmp_path, encoder) as gateway:
        with EmbedWorker(gateway.redis.url, tmp_path) as worker:
            async with asyncio.timeout(LIMIT_S):
                while not await asyncio.to_thread(was_asked, worker):
                    await embedded(gateway)  # it has no engine, so another worker answers what it was asked
            os.kill(worker.pid, signal.SIGSTOP)
            try:
                answers = await asyncio.gather(*(embedded(gateway) for _ in range(4)))
            finally:
                os.kill(worker.pid, signal.SIGCONT)
    assert answers == [OK] * 4
    assert "A process answers nothing any more." in gateway.log.read_text()
