"""A child's side of lanes: reads requests from gateways' connections and answers them in turn.

What a gateway sent at once is answered at once. A gateway that does not read its answers is read no further, and holds
up nobody.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import Final

from conch_contracts.headers import LANE, LANES
from conch_contracts.messages.tokenizer_frames import (
    LANE_OPERATIONS,
    MAX_LANE_REQUEST_BYTES,
    Operation,
    ReplyKind,
)
from conch_kit.frames import Frame, FrameReader, FrameTooLarge, pack
from conch_tokenizer.children.work_board import WorkOutcome, WorkRow

_READ_BYTES: Final = 256 * 1024
_UNSENT_BYTES: Final = 1024 * 1024
"""Of answers that a gateway has not taken; beyond it its requests wait."""
_FLUSH_S: Final = 0.002
"""How long an answer waits at most for those of the requests behind it."""
_OPERATIONS: Final = frozenset(LANE_OPERATIONS.values())
_OUTCOMES: Final = {ReplyKind.DONE: WorkOutcome.OK, ReplyKind.REFUSED: WorkOutcome.REFUSED}
"""Whatever else comes of a request is asked again by HTTP, and counted there."""

Answer = Callable[[Frame], tuple[ReplyKind, bytes]]


class LaneServer:
    """All lanes of one child."""

    def __init__(self, poller: select.poll, answer: Answer, row: WorkRow, answer_service: Callable[[], None]) -> None:
        """Make one; `answer_service` answers a request of the service, if there is one, between those of lanes."""
        self._poller = poller
        self._answer = answer
        self._row = row
        self._answer_service = answer_service
        self._lanes: dict[int, _Lane] = {}

    def open(self, wire: socket.socket, number: int, of: int) -> None:
        """Take over a connection as the lane of this number; a gateway is to have so many in all."""
        wire.setblocking(False)  # noqa: FBT003
        lane = _Lane(wire, number)
        lane.unsent += f"HTTP/1.1 101 Switching Protocols\r\n{LANE}: {number}\r\n{LANES}: {of}\r\n\r\n".encode()
        self._lanes[wire.fileno()] = lane
        self._row.lanes = len(self._lanes)
        self._poller.register(wire.fileno(), select.POLLIN)
        self._send(lane)

    def serve(self, descriptor: int) -> None:
        """Do what there is to do on a connection that the poller found ready."""
        lane = self._lanes[descriptor]
        if len(lane.unsent) > _UNSENT_BYTES and (not self._send(lane) or len(lane.unsent) > _UNSENT_BYTES):
            return
        try:
            data = lane.wire.recv(_READ_BYTES)
            requests = lane.reader.feed(data)
        except BlockingIOError:
            self._send(lane)
            return
        except (OSError, FrameTooLarge):
            data = b""
        if not data:
            self._close(lane)
            return
        self._answer_all(lane, requests)

    def _answer_all(self, lane: "_Lane", requests: list[Frame]) -> None:
        came = flushed = time.monotonic()
        left = len(requests)
        for request in requests:
            self._row.in_flight = left
            kind, answer = self._answered(lane, request)
            now = time.monotonic()
            if (outcome := _OUTCOMES.get(kind)) is not None:
                self._row.count(Operation(request.kind), outcome, now - came)
            lane.unsent += pack(kind, answer, request.number)
            left -= 1
            if now - flushed > _FLUSH_S:
                if not self._send(lane):
                    break
                self._answer_service()
                flushed = time.monotonic()
        self._row.in_flight = 0
        self._send(lane)

    def _answered(self, lane: "_Lane", request: Frame) -> tuple[ReplyKind, bytes]:
        if request.kind not in _OPERATIONS:
            return ReplyKind.FAILED, b""  # of a newer gateway, perhaps: it asks by HTTP
        self._row.begin(lane.number, request.number)
        try:
            return self._answer(request)
        finally:
            self._row.end()

    def _send(self, lane: "_Lane") -> bool:
        """Send what the other side takes now; False when the lane is no more."""
        try:
            sent = lane.wire.send(lane.unsent) if lane.unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(lane)
            return False
        del lane.unsent[:sent]
        wanted = select.POLLIN if len(lane.unsent) <= _UNSENT_BYTES else 0
        self._poller.modify(lane.wire.fileno(), wanted | (select.POLLOUT if lane.unsent else 0))
        return True

    def _close(self, lane: "_Lane") -> None:
        descriptor = lane.wire.fileno()
        if self._lanes.pop(descriptor, None) is not None:
            self._row.lanes = len(self._lanes)
            self._poller.unregister(descriptor)
            lane.wire.close()


class _Lane:
    """One gateway's connection."""

    __slots__ = ("number", "reader", "unsent", "wire")

    def __init__(self, wire: socket.socket, number: int) -> None:
        self.wire = wire
        self.number = number
        self.reader = FrameReader(MAX_LANE_REQUEST_BYTES)
        self.unsent = bytearray()
