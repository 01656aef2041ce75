"""Sends responses from the queue to the server, and asks whether clients are still there, in a thread of its own.

Sending and asking cost the server a round trip each, some 200 µs, which the engine thread must not pay. This thread is
the only one that touches a channel once a request is accepted, so that no question races with a final message: that
would crash the server.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Generic

from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.response_queue import E, R, ResponseQueue, ResponseStream
from conch_runtime_cpu.errors import ChannelClosed

_ASK_EVERY_S = 0.1
_ASK_AT_LEAST_EVERY_S = 0.5
_QUESTION_SHARE_S = 0.003
"""With many requests each is asked less often: questions take at most about a 15th of this thread's time."""
_IDLE_S = 0.1

log = logging.getLogger(__name__)


class ResponseSender(Generic[E, R]):
    """Delivers until the queue is stopped and empty."""

    def __init__(self, queue: ResponseQueue[E, R], cancel: Callable[[RequestKey], None]) -> None:
        self._queue = queue
        self._cancel = cancel
        self._arrived: deque[ResponseStream[R]] = deque()
        self._asked: deque[tuple[float, ResponseStream[R]]] = deque()
        self._thread = Thread(target=self._run, name="responses", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until everything has been delivered."""
        self._thread.join(timeout_s)

    def watch(self, stream: ResponseStream[R]) -> None:
        """Begin to ask whether the client of a request is still there."""
        self._arrived.append(stream)

    def _run(self) -> None:
        try:
            self._deliver_all()
        except Exception:
            log.exception("The sender of responses has crashed.")
            self._queue.stop("The engine has stopped accepting requests: its sender of responses has crashed.")
            self._deliver_all()  # the other requests' errors

    def _deliver_all(self) -> None:
        while not self._queue.drained:
            taken = self._queue.take(self._until_next_question())
            if taken is not None:
                self._send(*taken)
            self._ask()

    def _send(self, stream: ResponseStream[R], response: R) -> None:
        stream.closed = stream.closed or response.final
        try:
            stream.channel.send(response)
        except ChannelClosed as error:
            log.warning("A message could not be delivered: %s", error)
            stream.closed = True
            self._queue.discard(stream.key)
            self._cancel(stream.key)

    def _ask(self) -> None:
        """Ask for at most one request, the one that was not asked for the longest time."""
        now = time.monotonic()
        while self._arrived:
            self._asked.append((now, self._arrived.popleft()))
        while self._asked and self._asked[0][1].closed:
            self._asked.popleft()
        if not self._asked or now < self._asked[0][0] + self._interval_s():
            return
        _, stream = self._asked.popleft()
        if stream.channel.cancelled():
            self._cancel(stream.key)
        else:
            self._asked.append((now, stream))

    def _interval_s(self) -> float:
        return min(_ASK_AT_LEAST_EVERY_S, max(_ASK_EVERY_S, _QUESTION_SHARE_S * len(self._asked)))

    def _until_next_question(self) -> float:
        if not self._asked:
            return _IDLE_S
        return self._asked[0][0] + self._interval_s() - time.monotonic()
