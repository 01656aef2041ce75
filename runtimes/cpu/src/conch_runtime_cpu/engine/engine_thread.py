"""The one thread that computes: takes requests in, steps the scheduler, queues what came out.

It never waits for the server. When it crashes, every request gets an error and later ones are refused at once, so
nobody waits for an answer that cannot come.
"""

import logging
import time
from collections.abc import Callable, Sequence
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.response_queue import Channel, E, EngineEvent, R, ResponseQueue
from conch_runtime_cpu.engine.response_sender import ResponseSender
from conch_runtime_cpu.engine.token_rate import TokenRateLimit

_JOIN_S = 10.0

log = logging.getLogger(__name__)

Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)
E_co = TypeVar("E_co", bound=EngineEvent, covariant=True)


class Stepping(Protocol[Q_contra, E_co]):
    """What computes, step by step: see `scheduler.Scheduler` and `speech_scheduler.SpeechScheduler`."""

    @property
    def idle(self) -> bool:
        """Return whether a step would do nothing."""

    @property
    def has_prompts(self) -> bool:
        """Return whether a step could do something without decoding."""

    def add(self, key: RequestKey, request: Q_contra) -> None:
        """Queue a request."""

    def cancel(self, key: RequestKey) -> None:
        """End a request at the next step; one that has ended already is no error."""

    def step(self, *, decoding: bool = True) -> Sequence[E_co]:
        """Compute once and return what came out."""


class EngineThread(Generic[Q, E, R]):
    """Runs requests until it is stopped."""

    def __init__(self, scheduler: Stepping[Q, E], queue: ResponseQueue[E, R], *, tokens_per_second: int = 0) -> None:
        self._scheduler = scheduler
        self._rate = TokenRateLimit(tokens_per_second, time.monotonic)
        self._commands: SimpleQueue[Callable[[Stepping[Q, E]], None] | None] = SimpleQueue()
        self._queue = queue
        self._sender = ResponseSender(self._queue, self.cancel)
        self._keys = count()
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start to compute."""
        self._thread.start()
        self._sender.start()

    def submit(self, request: Q, channel: Channel[R]) -> RequestKey:
        """Queue a request and return at once; its answer goes to the channel. Raises EngineStopped."""
        key = RequestKey(next(self._keys))
        stream = self._queue.open(key, channel)
        self._commands.put(lambda scheduler: scheduler.add(key, request))
        self._sender.watch(stream)
        return key

    def cancel(self, key: RequestKey) -> None:
        """End a request within one step; its last message says so."""
        self._commands.put(lambda scheduler: scheduler.cancel(key))

    def stop(self) -> None:
        """Fail what is left, deliver it, and end both threads."""
        self._commands.put(None)
        self._thread.join(_JOIN_S)
        self._queue.stop("The engine has stopped accepting requests: it is ending.")
        self._sender.join(_JOIN_S)

    def _run(self) -> None:
        try:
            while self._take_commands():
                events = self._scheduler.step(decoding=self._rate.take())
                if events:
                    self._queue.publish(events)
        except Exception:
            log.exception("The engine has crashed.")
            self._queue.stop("The engine has stopped accepting requests: it has crashed.")

    def _take_commands(self) -> bool:
        """Obey all commands, waiting for one when there is nothing to compute; return whether to go on."""
        wait_s = self._idle_s()
        while True:
            try:
                command = self._commands.get(block=wait_s != 0, timeout=wait_s or None)
            except Empty:
                return True
            if command is None:
                return False
            command(self._scheduler)
            wait_s = 0.0

    def _idle_s(self) -> float | None:
        """Return how long there is nothing to compute; None for ever."""
        if self._scheduler.idle:
            return None
        return 0.0 if self._scheduler.has_prompts else self._rate.wait_s()
