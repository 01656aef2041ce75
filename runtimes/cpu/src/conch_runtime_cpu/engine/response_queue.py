"""Holds what the engine has made until `response_sender` sends it: all since the last message goes into the next one.

The engine thread publishes the events of a step under one lock and never waits for the server. The sender takes one
request's response at a time: first tokens and endings before everything else, the others in turn. A message costs the
server and everybody behind it about as much as computing ten tokens of a small model, whatever it holds. So with many
requests each waits a little between two messages, and its tokens travel together; a few requests get single tokens.
What an event and a response hold is up to each dialect.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition
from typing import Generic, Protocol, TypeVar

from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.errors import EngineStopped

_SINGLE_TOKENS = 4
"""So many requests at once get each token in a message of its own."""
_GAP_PER_REQUEST_S = 0.002
_LONGEST_GAP_S = 0.04


class EngineEvent(Protocol):
    """What one step brought to one request."""

    @property
    def key(self) -> RequestKey:
        """Return whose it is."""


class EngineResponse(Protocol):
    """What one request made since its last message."""

    error: str | None

    @property
    def final(self) -> bool:
        """Return whether nothing comes after this."""


E = TypeVar("E", bound=EngineEvent)
R = TypeVar("R", bound=EngineResponse)
R_contra = TypeVar("R_contra", bound=EngineResponse, contravariant=True)


class Channel(Protocol[R_contra]):
    """The way back to one client. Used by the sender's thread only, and never again after a final message."""

    def send(self, response: R_contra) -> None:
        """Send one message; raises ChannelClosed."""

    def cancelled(self) -> bool:
        """Return whether the client has gone."""


class ResponseStream(Generic[R]):
    """One request's channel, and what it made that has not been taken."""

    __slots__ = ("channel", "closed", "due", "heard", "key", "response", "started")

    def __init__(self, key: RequestKey, channel: Channel[R], now: float) -> None:
        self.key = key
        self.channel = channel
        self.response: R | None = None
        self.started = False
        """Whether anything was taken yet."""
        self.due = 0.0
        """When the next message may go, on the queue's clock, unless it is urgent."""
        self.heard = now
        """When the client last got a message, or asked."""
        self.closed = False
        """Whether the channel must not be used any more; known to the sender's thread alone."""


class ResponseQueue(Generic[E, R]):
    """The streams of all requests that are not answered to the end."""

    def __init__(
        self,
        empty: Callable[[], R],
        add: Callable[[R, E], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        sign_of_life_s: float = math.inf,
    ) -> None:
        """Hold responses, made by `empty`, to which `add` adds an event.

        A request of which there is nothing to tell for `sign_of_life_s` gets an empty response.
        """
        self._empty = empty
        self._add = add
        self._clock = clock
        self._sign_of_life_s = sign_of_life_s
        self._changed = Condition()
        self._streams: dict[RequestKey, ResponseStream[R]] = {}
        self._urgent: deque[ResponseStream[R]] = deque()
        self._waiting: deque[ResponseStream[R]] = deque()
        self._stopped: str | None = None

    def open(self, key: RequestKey, channel: Channel[R]) -> ResponseStream[R]:
        """Begin to take events for a request; raises EngineStopped when none will come."""
        with self._changed:
            if self._stopped is not None:
                raise EngineStopped(self._stopped)
            stream = self._streams[key] = ResponseStream(key, channel, self._clock())
            return stream

    def publish(self, events: Iterable[E]) -> None:
        """Take the events of one step."""
        with self._changed:
            asleep = not (self._urgent or self._waiting)
            for event in events:
                stream = self._streams.get(event.key)
                if stream is not None:
                    fresh = stream.response is None
                    response = stream.response = stream.response or self._empty()
                    self._add(response, event)
                    self._queue(stream, response, fresh)
            if asleep or self._urgent:
                self._changed.notify()

    def stop(self, reason: str) -> None:
        """Fail every request that is not finished, and all that come later."""
        with self._changed:
            self._stopped = self._stopped or reason
            for stream in self._streams.values():
                response = stream.response = stream.response or self._empty()
                if not response.final:
                    response.error = reason
                    self._urgent.append(stream)
            self._changed.notify()

    def take(self, timeout_s: float) -> tuple[ResponseStream[R], R] | None:
        """Wait for a response and return the most urgent; None when there was none in time."""
        with self._changed:
            self._give_signs_of_life()
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

    def _queue(self, stream: ResponseStream[R], response: R, fresh: bool) -> None:
        if response.final or (fresh and not stream.started):
            self._urgent.append(stream)
        elif fresh:
            self._waiting.append(stream)

    def _give_signs_of_life(self) -> None:
        """Make an empty response for each request that has heard nothing for too long."""
        if self._sign_of_life_s == math.inf:
            return
        silent_since = self._clock() - self._sign_of_life_s
        for stream in self._streams.values():
            if stream.response is None and stream.heard <= silent_since:
                stream.response = self._empty()
                self._urgent.append(stream)

    def _next_s(self) -> float:
        """Return how long nothing may be sent, whatever has been published so far."""
        if self._urgent:
            return 0.0
        return max(0.0, self._waiting[0].due - self._clock()) if self._waiting else math.inf

    def _pop(self, queue: deque[ResponseStream[R]]) -> tuple[ResponseStream[R], R] | None:
        while queue:
            stream = queue.popleft()
            if stream.response is not None:
                return stream, self._take_from(stream)
        return None

    def _take_from(self, stream: ResponseStream[R]) -> R:
        response, stream.response = stream.response, None
        assert response is not None
        stream.started = True
        stream.heard = self._clock()
        if len(self._streams) > _SINGLE_TOKENS:
            stream.due = stream.heard + min(_LONGEST_GAP_S, _GAP_PER_REQUEST_S * len(self._streams))
        if response.final:
            self._streams.pop(stream.key, None)
        return response
