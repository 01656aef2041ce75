"""Keeps a complete local snapshot of the registry; readers are always answered from memory.

One task listens for notices, another reads: at once after a notice what has changed, every 2 s the heartbeats and
whether the revision has moved, every 15 s the whole list whatever the revision says. What Redis cannot tell (it is
away, empty, older than the snapshot, or holds fewer routes than it says) changes nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

from conch_contracts.names import (
    CHANGED_KEY,
    CHANGES_CHANNEL,
    META_KEY,
    ROUTES_KEY,
    EngineAddress,
    ModelId,
    WorkerUrl,
    engines_key,
    workers_key,
)
from conch_contracts.records import Heartbeat, Pool
from conch_kit.background_loops import BackgroundLoops
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.liveness import EXPIRY_S, PoolLiveness
from conch_kit.registry.read_reply import Damaged, Missing, RawChanges, RawList, Unchanged, interpret
from conch_kit.registry.scripts import READ
from conch_kit.registry.snapshot import Parser, Snapshot, apply, merge, replace_workers
from conch_kit.timed_waits import wait_at_most

log = logging.getLogger(__name__)

_BEAT_S = 2.0
_AGAIN_S = 0.1
"""Until the next look where Redis has not answered: what a notice has told of is still to be read."""
_RESUBSCRIBE_S = 0.5


class RegistryReader(BackgroundLoops):
    """A live copy of the registry, as an async context manager."""

    def __init__(
        self,
        redis: RedisClient,
        *,
        pools: Collection[Pool] = (),
        clock: Callable[[], float] = time.monotonic,
        relist_s: float = 15.0,
    ) -> None:
        super().__init__(self._poll, self._listen)
        self._redis = redis
        self._clock = clock
        self._relist_s = relist_s
        self._pools = {pool: PoolLiveness(clock) for pool in pools}
        self._snapshot = Snapshot.EMPTY
        self._parser = Parser()
        self._callbacks: list[Callable[[Snapshot], None]] = []
        self._loaded = asyncio.Event()
        self._answered = asyncio.Event()
        self._wake = asyncio.Event()
        self._epoch = ""
        self._reachable = True
        self._relist_at = clock()
        self._tell_from_s = clock()
        """When each process that lives will have told what it does, after Redis was away."""

    @property
    def snapshot(self) -> Snapshot:
        """What is known now; never waits."""
        return self._snapshot

    @property
    def loaded(self) -> bool:
        """Whether a complete list has been read since the start."""
        return self._loaded.is_set()

    @property
    def answered(self) -> bool:
        """Whether Redis has answered since the start, and be it that it holds no list."""
        return self._answered.is_set()

    @property
    def ignored(self) -> int:
        """How many values could not be read so far."""
        return self._parser.ignored

    def is_streaming(self, address: EngineAddress, model: str) -> bool | None:
        """Return whether this model of an engine streams an answer to a worker: see `Heartbeat.streaming`.

        `model` is its name inside Triton. None where nobody can tell: Redis is away, or was until a moment ago, so a
        stream may have begun of which no worker could tell.
        """
        pools = self._snapshot.workers.values()
        if any((address, model) in beat.streaming for beats in pools for beat in beats):
            return True
        return False if self.answered and self._reachable and self._clock() >= self._tell_from_s else None

    async def wait_loaded(self, timeout_s: float) -> bool:
        """Wait for the first complete list and return whether it came in time."""
        await wait_at_most(self._loaded, timeout_s)
        return self.loaded

    async def wait_answered(self, timeout_s: float) -> bool:
        """Wait for the first answer, whatever it is, and return whether it came in time."""
        await wait_at_most(self._answered, timeout_s)
        return self.answered

    def subscribe(self, callback: Callable[[Snapshot], None]) -> None:
        """Call back on the event loop with each new snapshot."""
        self._callbacks.append(callback)

    async def _listen(self) -> None:
        while True:
            try:
                async with self._redis.pubsub(CHANGES_CHANNEL) as notices:
                    self._wake.set()  # what was published before the subscription
                    async for _ in notices:
                        self._wake.set()
            except RegistryUnavailable as error:
                log.debug("No change notices.", extra={"error": str(error)})
            await asyncio.sleep(_RESUBSCRIBE_S)

    async def _poll(self) -> None:
        while True:
            self._wake.clear()
            await self.refresh()
            await wait_at_most(self._wake, _BEAT_S if self._reachable else _AGAIN_S)

    async def refresh(self) -> None:
        """Read once what has changed; what cannot be read leaves the snapshot as it is."""
        try:
            replies = await self._redis.pipeline([self._read_command(), *self._worker_commands()])
        except RegistryUnavailable:
            self._reachable = False
            return
        was_away = not self._reachable
        if was_away:
            self._reachable = True
            for liveness in self._pools.values():
                liveness.forgive()
        before = self._snapshot
        emptied = self._take_list(replies[0])
        if was_away or emptied:
            self._tell_from_s = self._clock() + EXPIRY_S
        workers = {
            pool: liveness.observe(self._beats(reply), emptied=emptied)
            for (pool, liveness), reply in zip(self._pools.items(), replies[1:], strict=True)
        }
        self._snapshot = replace_workers(self._snapshot, workers)
        if self._snapshot is not before:
            for callback in self._callbacks:
                callback(self._snapshot)

    def _read_command(self) -> list[str | int]:
        have = ["", ""]
        if self._clock() < self._relist_at and self.loaded:
            have = [self._snapshot.epoch, str(self._snapshot.revision)]
        return ["EVAL", READ, 3, META_KEY, ROUTES_KEY, CHANGED_KEY, engines_key(ModelId("")), *have]

    def _worker_commands(self) -> list[list[str | int]]:
        return [["HGETALL", workers_key(pool)] for pool in self._pools]

    def _take_list(self, reply: object) -> bool:
        """Take what the script answered and return whether Redis has lost what it held before."""
        answer = interpret(reply)
        self._answered.set()
        match answer:
            case RawList() as raw:
                emptied = self._epoch not in ("", raw.epoch)
                self._epoch = raw.epoch
                self._merge(raw)
                return emptied
            case RawChanges() as changes:
                self._apply(changes)
                return False
            case Missing():
                return self._epoch != ""
            case Damaged():
                self._parser.ignored += 1
                return False
            case Unchanged():
                return False

    def _merge(self, raw: RawList) -> None:
        self._relist_at = self._clock() + self._relist_s
        if raw.epoch == self._snapshot.epoch and raw.revision < self._snapshot.revision:
            return
        merged = merge(self._snapshot, raw, self._parser)
        if merged != self._snapshot:
            self._snapshot = merged
        self._loaded.set()

    def _apply(self, changes: RawChanges) -> None:
        if (changes.epoch, changes.since) != (self._snapshot.epoch, self._snapshot.revision):
            return
        if changes.revision < self._snapshot.revision:
            return
        changed = apply(self._snapshot, changes, self._parser)
        if changed is None:
            self._relist_at = self._clock()  # some of it is missing: the next look is at all of it
            self._wake.set()
        else:
            self._snapshot = changed

    def _beats(self, reply: object) -> Mapping[WorkerUrl, Heartbeat]:
        if not isinstance(reply, list):
            self._parser.ignored += 1
            return {}
        beats = (self._parser.record(Heartbeat, value) for value in reply[1::2])
        return {beat.url: beat for beat in beats if beat is not None}
