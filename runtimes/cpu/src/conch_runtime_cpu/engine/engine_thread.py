"""The one thread that computes: takes requests in, steps the scheduler, queues what came out.

It never waits for the server. When it crashes, every request gets an error and later ones are refused at once, so
nobody waits for an answer that cannot come.
"""

import logging
import time
from collections.abc import Callable
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread

from conch_runtime_cpu.engine.response_queue import Channel, ResponseQueue
from conch_runtime_cpu.engine.response_sender import ResponseSender
from conch_runtime_cpu.engine.scheduler import RequestKey, Scheduler
from conch_runtime_cpu.engine.token_rate import TokenRateLimit
from conch_runtime_cpu.requests import GenerationRequest

_JOIN_S = 10.0

log = logging.getLogger(__name__)

Command = Callable[[Scheduler], None]


class EngineThread:
    """Runs requests until it is stopped."""

    def __init__(self, scheduler: Scheduler, *, tokens_per_second: int = 0) -> None:
        self._scheduler = scheduler
        self._rate = TokenRateLimit(tokens_per_second, time.monotonic)
        self._commands: SimpleQueue[Command | None] = SimpleQueue()
        self._queue = ResponseQueue()
        self._sender = ResponseSender(self._queue, self.cancel)
        self._keys = count()
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start to compute."""
        self._thread.start()
        self._sender.start()

    def submit(self, request: GenerationRequest, channel: Channel) -> RequestKey:
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
