"""The way to tokenizers: small requests go on lanes, straight to a child; all else, and what a lane fails at, by HTTP.

A tokenizer process is asked by HTTP until its lanes are open, so a lane is never waited for. When one ends over a
request, the same process is asked by HTTP, and told which request of which lane this was: it knows whether the child
ended because of it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from conch_contracts.headers import LANE_LACKS, LEFT_BY_LANE
from conch_contracts.messages.tokenizer_frames import (
    LANE_OPERATIONS,
    MAX_LANE_REQUEST_BYTES,
    Operation,
    ReplyKind,
)
from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.connection_pool import ConnectionPool, address
from conch_gateway.upstream.lane import Lane, LaneLost, LaneRefused
from conch_gateway.upstream.port import AnswerLost, ConnectFailed, Header, Post, UpstreamResponse
from conch_kit.frames import Frame

log = logging.getLogger(__name__)

_MAX_IN_FLIGHT: Final = 128
"""Requests on one lane; more go by HTTP, where a queue is kept."""
_OPEN_S: Final = 2.0
_AGAIN_S: Final = 0.5
"""Between two attempts to open a lane."""
_NO_LANES_S: Final = 30.0
"""Between two attempts where the tokenizer gives none: it is of another version, or traced."""
_STATUSES: Final[Mapping[int, int]] = {ReplyKind.DONE: 200, ReplyKind.REFUSED: 400}
_NO_HEADERS: Final[Mapping[bytes, bytes]] = {}


@dataclass(slots=True)
class _Process:
    """The lanes to one tokenizer process."""

    lanes: list[Lane] = field(default_factory=list)
    wanted: int = 1
    opening: asyncio.Task[None] | None = None
    not_before: float = 0.0
    """When a lane may be asked for again."""


class TokenizerLanes:
    """An `Upstream` to tokenizers; closes its lanes on exit."""

    def __init__(self, http: ConnectionPool, token: str | None) -> None:
        self._http = http
        self._token = token
        self._processes: dict[WorkerUrl, _Process] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        opening = [process.opening for process in self._processes.values() if process.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for process in self._processes.values():
            for lane in process.lanes:
                lane.abort()

    def post(self, request: Post) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Send the request and wait for the answer; see `Upstream.post`."""
        operation = LANE_OPERATIONS.get(request.path)
        if operation is not None and len(request.body) <= MAX_LANE_REQUEST_BYTES:
            lane = self._lane(request.url)
            if lane is not None:
                return _LaneExchange(lane, operation, request, self._http.post)
        return self._http.post(request)

    def open_lanes(self, url: WorkerUrl) -> int:
        """Return how many lanes to a process are open."""
        process = self._processes.get(url)
        return 0 if process is None else len(process.lanes)

    def awaited(self) -> set[WorkerUrl]:
        """Return the processes that owe the beginning of an answer."""
        busy = {url for url, process in self._processes.items() if any(lane.in_flight for lane in process.lanes)}
        return self._http.awaited() | busy

    def give_up(self, url: WorkerUrl) -> int:
        """Take the answers as lost whose beginning a process owes, and return how many these were."""
        lost = self._http.give_up(url)
        for lane in self._processes.get(url, _Process()).lanes:
            lost += lane.in_flight
            lane.give_up()
        return lost

    def _lane(self, url: WorkerUrl) -> Lane | None:
        """Return the least busy lane to a process; None when there is none to be had."""
        process = self._processes.get(url)
        if process is None:
            process = self._processes[url] = _Process()
        if len(process.lanes) < process.wanted and process.opening is None:
            loop = asyncio.get_running_loop()
            if loop.time() >= process.not_before:
                process.opening = loop.create_task(self._open_all(url, process))
        lane = min(process.lanes, key=_in_flight, default=None)
        return lane if lane is not None and lane.in_flight < _MAX_IN_FLIGHT else None

    async def _open_all(self, url: WorkerUrl, process: _Process) -> None:
        pause_s = _AGAIN_S
        try:
            while len(process.lanes) < process.wanted:
                lane = await self._open(url)
                process.lanes.append(lane)
                process.wanted = lane.of
        except LaneRefused as refused:
            pause_s = _AGAIN_S if refused.status == 503 else _NO_LANES_S
            log.debug("A tokenizer gives no lane.", extra={"url": url, "reason": str(refused)})
        except (LaneLost, OSError, TimeoutError, ConnectFailed) as exc:
            log.debug("A lane could not be opened.", extra={"url": url, "reason": str(exc)})
        finally:
            process.opening = None
            process.not_before = asyncio.get_running_loop().time() + pause_s

    async def _open(self, url: WorkerUrl) -> Lane:
        host, port = address(url)
        lane = None
        try:
            async with asyncio.timeout(_OPEN_S):
                _, lane = await asyncio.get_running_loop().create_connection(
                    lambda: Lane(url.partition("//")[2], self._token, lambda lost: self._lost(url, lost)), host, port
                )
                await lane.opened
        except BaseException:
            if lane is not None:
                lane.abort()
            raise
        return lane

    def _lost(self, url: WorkerUrl, lane: Lane) -> None:
        process = self._processes.get(url)
        if process is None:
            return
        with suppress(ValueError):
            process.lanes.remove(lane)
        process.not_before = 0.0
        if not process.lanes and process.opening is None:
            del self._processes[url]


class _LaneExchange:
    """One request and its answer, as a context."""

    __slots__ = ("_by_http", "_http", "_lane", "_operation", "_request")

    def __init__(
        self,
        lane: Lane,
        operation: Operation,
        request: Post,
        http: Callable[[Post], AbstractAsyncContextManager[UpstreamResponse]],
    ) -> None:
        self._lane = lane
        self._operation = operation
        self._request = request
        self._http = http
        self._by_http: AbstractAsyncContextManager[UpstreamResponse] | None = None

    async def __aenter__(self) -> UpstreamResponse:
        number, answer = self._lane.ask(self._operation, self._request.body)
        told: tuple[Header, ...] = ()
        try:
            frame = await answer
        except LaneLost:
            if self._lane.given_up:
                raise AnswerLost("The tokenizer fell silent.", started=False) from None
            told = ((LEFT_BY_LANE.encode(), b"%d.%d" % (self._lane.number, number)),)
        except asyncio.CancelledError:
            self._lane.forget(number)
            raise
        else:
            if (status := _STATUSES.get(frame.kind)) is not None:
                return _LaneAnswer(status, frame.payload)
            told = self._lacking(frame)
        self._by_http = self._http(replace(self._request, headers=(*self._request.headers, *told)))
        return await self._by_http.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None if self._by_http is None else await self._by_http.__aexit__(kind, exc, trace)

    def _lacking(self, frame: Frame) -> tuple[Header, ...]:
        if frame.kind != ReplyKind.MISSING:
            return ()
        return ((LANE_LACKS.encode(), b"%d.%b" % (self._lane.number, frame.payload)),)


class _LaneAnswer:
    """An answer that is there as a whole."""

    __slots__ = ("_body", "status")

    headers = _NO_HEADERS

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    async def read(self) -> bytes:
        """Return the body, then nothing."""
        body, self._body = self._body, b""
        return body

    async def push(self, sink: Callable[[bytes], bool]) -> None:
        """Leave all of the body to `read`."""


def _in_flight(lane: Lane) -> int:
    return lane.in_flight
