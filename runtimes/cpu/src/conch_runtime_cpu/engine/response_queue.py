"""Holds what the engine has made until `response_sender` sends it: all since the last message goes into the next one.

The engine thread publishes the events of a step under one lock and never waits for the server. The sender takes one
request's response at a time: first tokens and endings before everything else, the others in turn. A message costs the
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
class PartialResponse:
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
    """The way back to one client. Used by the sender's thread only, and never again after a final message."""

    def send(self, response: PartialResponse) -> None:
        """Send one message; raises ChannelClosed."""

    def cancelled(self) -> bool:
        """Return whether the client has gone."""


class ResponseStream:
    """One request's channel, and what it made that has not been taken."""

    __slots__ = ("channel", "closed", "due", "key", "response", "started")

    def __init__(self, key: RequestKey, channel: Channel) -> None:
        self.key = key
        self.channel = channel
        self.response: PartialResponse | None = None
        self.started = False
        """Whether anything was taken yet."""
        self.due = 0.0
        """When the next message may go, on the queue's clock, unless it is urgent."""
        self.closed = False
        """Whether the channel must not be used any more; known to the sender's thread alone."""

    def add(self, event: Event) -> None:
        """Add an event to the next response."""
        response = self.response = self.response or PartialResponse()
        if event.token is not None:
            response.tokens.append(event.token)
        if event.logprobs is not None:
            response.logprobs.append(event.logprobs)
        response.prompt = event.prompt or response.prompt
        response.finish = event.finish or response.finish
        response.error = event.error or response.error


class ResponseQueue:
    """The streams of all requests that are not answered to the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = Condition()
        self._streams: dict[RequestKey, ResponseStream] = {}
        self._urgent: deque[ResponseStream] = deque()
        self._waiting: deque[ResponseStream] = deque()
        self._stopped: str | None = None

    def open(self, key: RequestKey, channel: Channel) -> ResponseStream:
        """Begin to take events for a request; raises EngineStopped when none will come."""
        with self._changed:
            if self._stopped is not None:
                raise EngineStopped(self._stopped)
            stream = self._streams[key] = ResponseStream(key, channel)
            return stream

    def publish(self, events: Iterable[Event]) -> None:
        """Take the events of one step."""
        with self._changed:
            asleep = not (self._urgent or self._waiting)
            for event in events:
                stream = self._streams.get(event.key)
                if stream is not None:
                    self._deliver(stream, event)
            if asleep or self._urgent:
                self._changed.notify()

    def stop(self, reason: str) -> None:
        """Fail every request that is not finished, and all that come later."""
        with self._changed:
            self._stopped = self._stopped or reason
            for stream in self._streams.values():
                if stream.response is None or not stream.response.final:
                    self._deliver(stream, Event(stream.key, error=reason))
            self._changed.notify()

    def take(self, timeout_s: float) -> tuple[ResponseStream, PartialResponse] | None:
        """Wait for a response and return the most urgent; None when there was none in time."""
        with self._changed:
            wait_s = min(timeout_s, self._next_s())
            if wait_s > 0:
                self._changed.wait(wait_s)
            return self._pop(self._urgent) or (self._pop(self._waiting) if self._next_s() <= 0 else None)

    def discard(self, key: RequestKey) -> None:
        """Drop a request whose channel is closed."""
        with self._changed:
            stream = self._streams.pop(key, None)
            if stream is not None:
                stream.response = None

    @property
    def drained(self) -> bool:
        """Return whether it is stopped and everything has been taken."""
        with self._changed:
            return self._stopped is not None and not self._streams

    def _deliver(self, stream: ResponseStream, event: Event) -> None:
        fresh = stream.response is None
        stream.add(event)
        if event.finish is not None or event.error is not None or (fresh and not stream.started):
            self._urgent.append(stream)
        elif fresh:
            self._waiting.append(stream)

    def _next_s(self) -> float:
        """Return how long nothing may be sent, whatever has been published so far."""
        if self._urgent:
            return 0.0
        return max(0.0, self._waiting[0].due - self._clock()) if self._waiting else math.inf

    def _pop(self, queue: deque[ResponseStream]) -> tuple[ResponseStream, PartialResponse] | None:
        while queue:
            stream = queue.popleft()
            if stream.response is not None:
                return stream, self._take_from(stream)
        return None

    def _take_from(self, stream: ResponseStream) -> PartialResponse:
        response, stream.response = stream.response, None
        assert response is not None
        stream.started = True
        if len(self._streams) > _SINGLE_TOKENS:
            stream.due = self._clock() + min(_LONGEST_GAP_S, _GAP_PER_REQUEST_S * len(self._streams))
        if response.final:
            self._streams.pop(stream.key, None)
        return response
