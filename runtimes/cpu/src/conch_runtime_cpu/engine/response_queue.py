"""Holds what the engine has made until the courier takes it, all since the last time in one message.

The engine thread publishes the events of a step under one lock and never waits for the server. The courier takes one
request's news at a time: first tokens and endings before everything else, the others in turn. A message costs the
server and everybody behind it about as much as computing ten tokens of a small model, whatever it holds. So with many
requests each waits a little between two messages, and its tokens travel together; a few requests get single tokens.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Condition
from typing import Protocol

from conch_runtime_cpu.engine.scheduler import Event, FinishedRequest, RequestKey
from conch_runtime_cpu.errors import EngineStopped
from conch_runtime_cpu.sampling.logprobs import LogprobRows
from conch_runtime_cpu.sampling.sampler import TokenLogprobs

_SINGLE_TOKENS = 4
"""So many requests at once get each token in a message of its own."""
_GAP_PER_REQUEST_S = 0.002
_LONGEST_GAP_S = 0.04


@dataclass(slots=True)
class News:
    """What one request made since its last message."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    """As long as `tokens`, or empty when the request did not ask."""
    prompt: LogprobRows | None = None
    finish: FinishedRequest | None = None
    error: str | None = None

    @property
    def final(self) -> bool:
        """Return whether nothing comes after this."""
        return self.finish is not None or self.error is not None


class Channel(Protocol):
    """The way back to one client. Used by the courier's thread only, and never again after a final message."""

    def send(self, news: News) -> None:
        """Send one message; raises ChannelClosed."""

    def cancelled(self) -> bool:
        """Return whether the client has gone."""


class Mailbox:
    """One request's channel, and its news that have not been taken."""

    __slots__ = ("channel", "closed", "due", "key", "news", "started")

    def __init__(self, key: RequestKey, channel: Channel) -> None:
        self.key = key
        self.channel = channel
        self.news: News | None = None
        self.started = False
        """Whether anything was taken yet."""
        self.due = 0.0
        """When the next message may go, on the outbox's clock, unless it is urgent."""
        self.closed = False
        """Whether the channel must not be used any more; known to the courier's thread alone."""

    def add(self, event: Event) -> None:
        """Merge an event into the news."""
        news = self.news = self.news or News()
        if event.token is not None:
            news.tokens.append(event.token)
        if event.logprobs is not None:
            news.logprobs.append(event.logprobs)
        news.prompt = event.prompt or news.prompt
        news.finish = event.finish or news.finish
        news.error = event.error or news.error


class Outbox:
    """The mailboxes of all requests that are not answered to the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = Condition()
        self._mailboxes: dict[RequestKey, Mailbox] = {}
        self._urgent: deque[Mailbox] = deque()
        self._waiting: deque[Mailbox] = deque()
        self._stopped: str | None = None

    def open(self, key: RequestKey, channel: Channel) -> Mailbox:
        """Begin to take events for a request; raises EngineStopped when none will come."""
        with self._changed:
            if self._stopped is not None:
                raise EngineStopped(self._stopped)
            mailbox = self._mailboxes[key] = Mailbox(key, channel)
            return mailbox

    def publish(self, events: Iterable[Event]) -> None:
        """Take the events of one step."""
        with self._changed:
            asleep = not (self._urgent or self._waiting)
            for event in events:
                mailbox = self._mailboxes.get(event.key)
                if mailbox is not None:
                    self._deliver(mailbox, event)
            if asleep or self._urgent:
                self._changed.notify()

    def stop(self, reason: str) -> None:
        """Fail every request that is not finished, and all that come later."""
        with self._changed:
            self._stopped = self._stopped or reason
            for mailbox in self._mailboxes.values():
                if mailbox.news is None or not mailbox.news.final:
                    self._deliver(mailbox, Event(mailbox.key, error=reason))
            self._changed.notify()

    def take(self, timeout_s: float) -> tuple[Mailbox, News] | None:
        """Wait for news and return the most urgent; None when there were none in time."""
        with self._changed:
            wait_s = min(timeout_s, self._next_s())
            if wait_s > 0:
                self._changed.wait(wait_s)
            return self._pop(self._urgent) or (self._pop(self._waiting) if self._next_s() <= 0 else None)

    def discard(self, key: RequestKey) -> None:
        """Drop a request whose channel is closed."""
        with self._changed:
            mailbox = self._mailboxes.pop(key, None)
            if mailbox is not None:
                mailbox.news = None

    @property
    def drained(self) -> bool:
        """Return whether it is stopped and everything has been taken."""
        with self._changed:
            return self._stopped is not None and not self._mailboxes

    def _deliver(self, mailbox: Mailbox, event: Event) -> None:
        fresh = mailbox.news is None
        mailbox.add(event)
        if event.finish is not None or event.error is not None or (fresh and not mailbox.started):
            self._urgent.append(mailbox)
        elif fresh:
            self._waiting.append(mailbox)

    def _next_s(self) -> float:
        """Return how long nothing may be sent, whatever has been published so far."""
        if self._urgent:
            return 0.0
        return max(0.0, self._waiting[0].due - self._clock()) if self._waiting else math.inf

    def _pop(self, queue: deque[Mailbox]) -> tuple[Mailbox, News] | None:
        while queue:
            mailbox = queue.popleft()
            if mailbox.news is not None:
                return mailbox, self._empty(mailbox)
        return None

    def _empty(self, mailbox: Mailbox) -> News:
        news, mailbox.news = mailbox.news, None
        assert news is not None
        mailbox.started = True
        if len(self._mailboxes) > _SINGLE_TOKENS:
            mailbox.due = self._clock() + min(_LONGEST_GAP_S, _GAP_PER_REQUEST_S * len(self._mailboxes))
        if news.final:
            self._mailboxes.pop(mailbox.key, None)
        return news
