"""Which children get a request that came by HTTP, what they load for a lane, and how a connection becomes one."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch_contracts.headers import LANE_LACKS, LEFT_BY_LANE
from conch_contracts.messages.tokenizer_frames import MAX_LANE_REQUEST_BYTES, Operation
from conch_contracts.names import LANE_PATH, PREPARE_PATH, Digest
from conch_kit.errors import BodyTooLarge
from conch_kit.http.caller_connection import CONNECTION
from conch_tokenizer.children.pool import Bundle
from conch_tokenizer.children.work_board import WorkBoard, board_memory
from conch_tokenizer.errors import ChildError, ChildLost
from conch_tokenizer.http.request_count import RequestCount
from conch_tokenizer.http.service import TokenizerService
from testkit.waiting import eventually

DIGEST = Digest("0" * 64)
MOST = MAX_LANE_REQUEST_BYTES + 100
LACKS = (LANE_LACKS.encode(), b"1." + DIGEST.encode())


class Pool:
    """Answers at once; a load waits for `go_on`."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.outcomes: list[ChildError] = []
        self.loads = 0
        self.go_on = asyncio.Event()
        self.failure: Exception | None = None

    async def run(self, operation: Operation, payload: bytes, bundle: Bundle | None = None) -> bytes:
        self.bodies.append(payload)
        return b"{}"

    async def run_after(self, outcome: ChildError, operation: Operation, payload: bytes) -> bytes:
        self.outcomes.append(outcome)
        return b"{}"

    async def load(self, child: object, bundle: Bundle) -> None:
        self.loads += 1
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure


class Lanes:
    """One lane, and what is said of it."""

    def __init__(self) -> None:
        self.complete = True
        self.given: list[int] = []
        self.there: object | None = SimpleNamespace(number=7)
        self.fault: Exception | None = None

    def child(self, lane: int) -> object | None:
        return self.there

    async def outcome(self, lane: int, number: int) -> ChildError | None:
        return ChildLost(f"{lane} {number}")

    def give(self, descriptor: int) -> None:
        if self.fault is not None:
            raise self.fault
        os.fstat(descriptor)
        self.given.append(descriptor)


class Bundles:
    async def folder(self, digest: Digest) -> Path:
        return Path("/folder")


class Port:
    """A caller's connection, of which one descriptor is there to be handed over."""

    def __init__(self) -> None:
        self.on_gone: Any = None
        self.descriptor: int | None = None

    def detach(self) -> int:
        self.descriptor = os.open(os.devnull, os.O_RDONLY)
        return self.descriptor


class Served:
    """A service, and what it answers."""

    def __init__(self) -> None:
        self.small, self.large, self.lanes, self.port = Pool(), Pool(), Lanes(), Port()
        with board_memory(1) as memory:
            count = RequestCount(WorkBoard(memory).row(0))
        self._service = TokenizerService(self.small, self.large, self.lanes, Bundles(), count, max_body_bytes=MOST)

    async def ask(self, body: bytes = b"{}", *headers: tuple[bytes, bytes], path: str = PREPARE_PATH) -> int:
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        scope = {"type": "http", "headers": list(headers), "extensions": {CONNECTION: {"port": self.port}}}
        await {**self._service.handlers(), **self._service.lane_handler()}[path](scope, receive, send)
        return statuses[0]


async def test_large_requests_have_children_of_their_own() -> None:
    served = Served()
    for size in (MAX_LANE_REQUEST_BYTES, MAX_LANE_REQUEST_BYTES + 1):
        assert await served.ask(b"x" * size) == 200
    assert list(map(len, served.small.bodies)) == [MAX_LANE_REQUEST_BYTES]
    assert list(map(len, served.large.bodies)) == [MAX_LANE_REQUEST_BYTES + 1]


async def test_a_body_that_is_too_large_reaches_no_child() -> None:
    served = Served()
    with pytest.raises(BodyTooLarge):
        await served.ask(b"x" * (MOST + 1))
    assert served.small.bodies == served.large.bodies == []


async def test_a_request_that_a_lane_ended_over_has_had_its_first_attempt() -> None:
    served = Served()
    await served.ask(b"{}", (LEFT_BY_LANE.encode(), b"3.9"))
    assert [str(outcome) for outcome in served.small.outcomes] == ["3 9"]
    assert served.small.bodies == []


@pytest.mark.parametrize("failure", [None, ChildLost("gone")])
async def test_what_a_lanes_child_lacks_is_loaded_once_at_a_time(failure: Exception | None) -> None:
    served = Served()
    served.small.failure = failure
    for _ in range(3):
        await served.ask(b"{}", LACKS)
    await eventually(lambda: served.small.loads > 0, "the load")
    assert served.small.loads == 1
    served.small.go_on.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await served.ask(b"{}", LACKS)  # it may have been dropped since
    await eventually(lambda: served.small.loads == 2, "another load")


async def test_nothing_is_loaded_for_a_child_that_has_ended() -> None:
    served = Served()
    served.lanes.there = None
    await served.ask(b"{}", LACKS)
    await asyncio.sleep(0)
    assert served.small.loads == 0


async def test_while_a_child_is_missing_there_is_no_lane() -> None:
    served = Served()
    served.lanes.complete = False
    assert await served.ask(b"", path=LANE_PATH) == 503
    assert (served.lanes.given, served.port.descriptor) == ([], None)


@pytest.mark.parametrize("fault", [None, RuntimeError("no")])
async def test_a_connection_that_was_handed_over_is_not_kept_open_here(fault: Exception | None) -> None:
    served = Served()
    served.lanes.fault = fault
    asking = asyncio.create_task(served.ask(b"", path=LANE_PATH))
    await eventually(lambda: served.port.descriptor is not None, "the connection")
    assert served.port.descriptor is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(served.port.descriptor)
    assert len(served.lanes.given) == (fault is None)
    served.port.on_gone()
    with pytest.raises((IndexError, RuntimeError)):  # whoever was handed over is answered by a child
        await asking


async def test_who_asks_for_a_lane_sends_nothing_with_it() -> None:
    with pytest.raises(BodyTooLarge):
        await Served().ask(b"x", path=LANE_PATH)
