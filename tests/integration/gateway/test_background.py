"""Responses in the background: two gateways on one Redis, and what becomes of an answer when its gateway ends."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.names import RESPONSE_PREFIX
from testkit.gateway.process import Process, gateway_beside, gateway_process
from testkit.http import raw_http
from testkit.patient_redis import patient_redis
from testkit.servers.scripted_http import Call

PATH = "/v1/responses"
ASKED = b'{"model":"tiny-chat","input":"hi","background":true}'
BODY = b'{"object":"response","status":"completed","background":true,"output":[]}'
WITHIN_S = 30


@dataclass
class Pair:
    """Two gateways; the worker begins and then waits for `go_on`."""

    first: Process
    second: Process
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def asked(self) -> str:
        """Ask the first gateway, and return the answer's path when the work is under way."""
        status, _, body = await self.first.post(PATH, ASKED)
        queued = json.loads(body)
        assert (status, queued["status"]) == (200, "queued")
        await asyncio.wait_for(self.begun.wait(), WITHIN_S)
        return f"{PATH}/{queued['id']}"

    async def until(self, path: str, status: str) -> Any:
        """Ask the second gateway until the answer has this status."""
        async with asyncio.timeout(WITHIN_S):
            while (shown := await self.shown(path))["status"] != status:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return shown

    async def shown(self, path: str) -> Any:
        """Return what the second gateway says of the answer."""
        return json.loads((await self.second.post(path, b"", method="GET"))[2])


@pytest.fixture
async def pair(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    folder = tmp_path_factory.mktemp("second")
    async with gateway_process(tmp_path) as first, gateway_beside(first, folder) as second:
        found = Pair(first, second)
        usual = first.backend.script

        async def work(call: Call) -> None:
            if "prepare" in call.path:
                return await usual(call)
            found.begun.set()
            going, gone = (asyncio.create_task(wait) for wait in (found.go_on.wait(), call.closed()))
            await asyncio.wait([going, gone], return_when=asyncio.FIRST_COMPLETED)
            left = gone.done()
            for task in (going, gone):
                task.cancel()
            await asyncio.wait([going, gone])
            if left:
                return found.left.set()
            return await call.answer(BODY)

        first.backend.script = work
        yield found


async def test_any_gateway_shows_it_and_stops_it(pair: Pair) -> None:
    path = await pair.asked()
    await pair.until(path, "in_progress")
    status, _, body = await pair.second.post(f"{path}/cancel", b"")
    assert (status, json.loads(body)["status"]) == (200, "cancelled")
    await asyncio.wait_for(pair.left.wait(), WITHIN_S)


async def test_a_gateway_that_ends_brings_it_to_its_end_first(pair: Pair) -> None:
    path = await pair.asked()
    pair.first.process.terminate()
    await pair.until(path, "in_progress")
    pair.go_on.set()
    await asyncio.wait_for(pair.first.process.wait(), WITHIN_S)
    assert (await pair.shown(path))["status"] == "completed"


async def test_one_that_is_cut_says_so(pair: Pair) -> None:
    path = await pair.asked()
    for _ in range(2):  # the second signal cuts
        pair.first.process.terminate()
        await asyncio.sleep(0.1)
    shown = await pair.until(path, "failed")
    assert shown["error"]["message"] == "The server is shutting down."


async def test_one_whose_gateway_was_killed_has_failed_when_its_lease_is_over(pair: Pair) -> None:
    path = await pair.asked()
    pair.first.process.send_signal(signal.SIGKILL)
    await pair.first.process.wait()
    assert (await pair.shown(path))["status"] in ("queued", "in_progress")
    async with patient_redis(pair.second.redis.url) as redis:
        key = f"{RESPONSE_PREFIX}all:{path.rpartition('/')[2]}:lease"
        assert 0 < await redis.execute("PTTL", key) <= 60_000
        await redis.execute("PEXPIRE", key, 1)
    assert (await pair.until(path, "failed"))["error"]["code"] == "server_error"


async def test_its_connection_serves_the_next_request_meanwhile(pair: Pair) -> None:
    both = raw_http.request(PATH, ASKED) + raw_http.request("/v1/models", b"", "connection: close", method="GET")
    answers = await pair.first.raw(both)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert b'"queued"' in answers
    assert b'"list"' in answers
    pair.go_on.set()
