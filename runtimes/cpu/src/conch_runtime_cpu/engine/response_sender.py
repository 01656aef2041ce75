"""Carries news from the outbox to the server, and asks whether clients are still there, in a thread of its own.

Sending and asking cost the server a round trip each, some 200 µs, which the engine thread must not pay. This thread is
the only one that touches a channel once a request is accepted: so no question can race with a final message, which
would crash the server.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Thread

from conch_runtime_cpu.engine.response_queue import Mailbox, News, Outbox
from conch_runtime_cpu.engine.scheduler import RequestKey
from conch_runtime_cpu.errors import ChannelClosed

_ASK_EVERY_S = 0.1
_ASK_AT_LEAST_EVERY_S = 0.5
_QUESTION_SHARE_S = 0.003
"""With many requests each is asked less often: questions take at most about a 15th of this thread's time."""
_IDLE_S = 0.1

log = logging.getLogger(__name__)


class ResponseSender:
    """Delivers until the outbox is stopped and empty."""

    def __init__(self, outbox: Outbox, cancel: Callable[[RequestKey], None]) -> None:
        self._outbox = outbox
        self._cancel = cancel
        self._arrived: deque[Mailbox] = deque()
        self._asked: deque[tuple[float, Mailbox]] = deque()
        self._thread = Thread(target=self._run, name="courier", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until everything has been delivered."""
        self._thread.join(timeout_s)

    def watch(self, mailbox: Mailbox) -> None:
        """Begin to ask whether the client of a request is still there."""
        self._arrived.append(mailbox)

    def _run(self) -> None:
        try:
            self._deliver_all()
        except Exception:
            log.exception("The courier has crashed.")
            self._outbox.stop("The engine has stopped accepting requests: its courier has crashed.")
            self._deliver_all()  # the other requests' errors

    def _deliver_all(self) -> None:
        while not self._outbox.drained:
            taken = self._outbox.take(self._until_next_question())
            if taken is not None:
                self._send(*taken)
            self._ask()

    def _send(self, mailbox: Mailbox, news: News) -> None:
        mailbox.closed = mailbox.closed or news.final
        try:
            mailbox.channel.send(news)
        except ChannelClosed as error:
            log.warning("A message could not be delivered: %s", error)
            mailbox.closed = True
            self._outbox.discard(mailbox.key)
            self._cancel(mailbox.key)

    def _ask(self) -> None:
        """Ask for at most one request, the one that was not asked for the longest time."""
        now = time.monotonic()
        while self._arrived:
            self._asked.append((now, self._arrived.popleft()))
        while self._asked and self._asked[0][1].closed:
            self._asked.popleft()
        if not self._asked or now < self._asked[0][0] + self._interval_s():
            return
        _, mailbox = self._asked.popleft()
        if mailbox.channel.cancelled():
            self._cancel(mailbox.key)
        else:
            self._asked.append((now, mailbox))

    def _interval_s(self) -> float:
        return min(_ASK_AT_LEAST_EVERY_S, max(_ASK_EVERY_S, _QUESTION_SHARE_S * len(self._asked)))

    def _until_next_question(self) -> float:
        if not self._asked:
            return _IDLE_S
        return max(0.0, self._asked[0][0] + self._interval_s() - time.monotonic())
