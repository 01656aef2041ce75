"""A fixed number of children, and what they are asked to do; which request gets which is decided in `child_queue`.

For each child one task runs: spawn it, load what was loaded before, offer it, wait for its end, begin again. So a
child that was killed or died is replaced within milliseconds, whatever the reason was.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import orjson

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_contracts.names import Digest
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.errors import InvalidRequest, Unavailable
from conch_kit.frames import Frame
from conch_kit.tracing import Tracer
from conch_tokenizer.children.child_queue import ChildQueue
from conch_tokenizer.children.connection import ChildConnection
from conch_tokenizer.children.lanes import Lanes
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.service_orders import LoadOrder
from conch_tokenizer.errors import (
    BundleMissing,
    BundleUnreadable,
    ChildError,
    ChildFailed,
    ChildHung,
    ChildLost,
    WorkStage,
)
from conch_tokenizer.metrics import TokenizerMetrics

log = logging.getLogger(__name__)

_START_TIMEOUT_S = 30.0
_PING_S = 1.0
"""Between two requests to an idle child for a sign of life."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A tokenizer bundle's files on disk."""

    digest: Digest
    folder: Path


@dataclass(frozen=True, slots=True)
class ChildPoolSettings:
    """How many children there are, and how long requests may wait and take."""

    size: int
    first_row: int
    """Of the work board; each child has one."""
    models_in_memory: int
    queue_wait_s: float
    queue_max: int
    limits: TimeLimits
    load: Operation = Operation.LOAD
    """How a bundle is loaded in these children."""
    on_demand: bool = False
    """Whether the children are started with the first request."""
    tries_again: bool = True
    """Whether a request whose child ended is tried once more: not where requests are known to end children."""
    respawn_delay_s: float = 0.5
    """Between two starts when a child did not even become ready, so that a broken installation does not spin."""


class ChildSource(Protocol):
    """Where children come from."""

    async def spawn(self, row: int) -> ChildConnection:
        """Return a connection to a new child with this row of the work board."""
        ...

    async def restart(self) -> None:
        """Make the source of children anew, because none come."""
        ...


class ChildPool:
    """Runs requests in children."""

    def __init__(
        self,
        source: ChildSource,
        settings: ChildPoolSettings,
        metrics: TokenizerMetrics,
        tracer: Tracer,
        lanes: Lanes | None = None,
    ) -> None:
        """Make one, whose children have these lanes."""
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self._tracer = tracer
        self._queue = ChildQueue()
        self._lanes = lanes
        self._loaded: OrderedDict[Digest, Bundle] = OrderedDict()
        self._stack = AsyncExitStack()
        self._alive = 0
        self._first_ready = asyncio.Event()
        self._wanted = asyncio.Event()
        if not settings.on_demand:
            self._wanted.set()

    async def __aenter__(self) -> Self:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for index in range(self._settings.size):
            row = self._settings.first_row + index
            task = group.create_task(self._keep_child_running(row), name=f"child-{row}")
            self._stack.callback(task.cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, stack: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, exc, stack)

    @property
    def alive(self) -> int:
        """Return how many children are ready or at work."""
        return self._alive

    async def wait_ready(self) -> None:
        """Wait until the first child can work."""
        await self._first_ready.wait()

    async def run(self, operation: Operation, payload: bytes, bundle: Bundle | None = None) -> bytes:
        """Run one request in a child, with this bundle loaded first, and return its JSON answer.

        A request whose child ends, or never looks at it, is tried once more. Raises InvalidRequest, Unavailable,
        BundleMissing, BundleUnreadable and ChildError.
        """
        try:
            return await self._run_once(operation, payload, bundle)
        except ChildError as failure:
            return await self._once_more(failure, operation, payload, bundle)

    async def run_after(self, outcome: ChildError, operation: Operation, payload: bytes) -> bytes:
        """Go on as `run` does after a first attempt with this outcome, which may be raised."""
        return await self._once_more(outcome, operation, payload, None)

    async def _once_more(
        self, failure: ChildError, operation: Operation, payload: bytes, bundle: Bundle | None
    ) -> bytes:
        unread = isinstance(failure, ChildHung) and failure.stage is WorkStage.UNREAD
        if not (unread or (isinstance(failure, ChildLost) and self._settings.tries_again)):
            raise failure
        log.warning("A child left a request; it is tried once more.", extra={"reason": str(failure)})
        return await self._run_once(operation, payload, bundle)

    async def _run_once(self, operation: Operation, payload: bytes, bundle: Bundle | None) -> bytes:
        with self._metrics.queue_seconds.time(), self._tracer.span("wait"):
            child = await self._acquire()
        try:
            with self._tracer.span("work"):
                if bundle is not None:
                    await self._load(child, bundle)
                return _result(await child.ask(operation, payload, self._settings.limits))
        finally:
            self._queue.offer(child)

    async def _load(self, child: ChildConnection, bundle: Bundle) -> None:
        payload = LoadOrder(bundle.digest, bundle.folder).pack()
        _result(await child.ask(self._settings.load, payload, self._settings.limits))
        self._loaded[bundle.digest] = bundle
        self._loaded.move_to_end(bundle.digest)
        while len(self._loaded) > self._settings.models_in_memory:
            self._loaded.popitem(last=False)

    async def load(self, child: ChildConnection, bundle: Bundle) -> None:
        """Load a bundle in this very child; raises ChildError, BundleUnreadable and Unavailable."""
        await self._acquire(child)
        try:
            await self._load(child, bundle)
        finally:
            self._queue.offer(child)

    async def _acquire(self, wanted: ChildConnection | None = None) -> ChildConnection:
        """Return an idle child, this one if one is wanted."""
        self._wanted.set()
        idle = self._queue.take(wanted)
        if idle is not None:
            return idle
        if self._queue.waiting >= self._settings.queue_max:
            raise Unavailable("too many requests wait for the tokenizer", retry_after_s=1, retryable=True)
        request, taken = self._queue.join(wanted), False
        try:
            async with asyncio.timeout(self._settings.queue_wait_s):
                child = await request.child
                taken = True
                return child
        except TimeoutError as exc:
            raise Unavailable("the tokenizer is overloaded", retry_after_s=1, retryable=True) from exc
        finally:
            if not taken:
                self._queue.leave(request)

    async def _keep_child_running(self, row: int) -> None:
        await self._wanted.wait()
        while True:
            try:
                child = await self._start_child(row)
            except (ChildError, BundleUnreadable, OSError) as exc:
                log.warning("A child could not be started.", extra={"reason": str(exc)})
                await asyncio.sleep(self._settings.respawn_delay_s)
                continue
            self._alive += 1
            self._first_ready.set()
            try:
                self._queue.offer(child)
                await self._until_lost(child)
                log.warning("A child ended and is replaced.", extra={"child": child.number})
                self._metrics.children_lost.inc()
            finally:
                self._alive -= 1
                child.kill()
                self._queue.forget(child)
                if self._lanes is not None:
                    self._lanes.ended(child)

    async def _until_lost(self, child: ChildConnection) -> None:
        """Wait for the end of a child; a frozen one ends because it gives no sign of life while it has lanes."""
        if self._lanes is not None:
            self._lanes.started(child)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PING_S):
                    await child.lost.wait()
                return
            if self._lanes is not None and self._queue.take(child) is not None:
                with suppress(ChildError):
                    await child.ask(Operation.PING, b"", self._settings.limits)
                self._queue.offer(child)

    async def _start_child(self, row: int) -> ChildConnection:
        child = await self._source.spawn(row)
        try:
            await self._ready(child)
            for bundle in list(self._loaded.values()):
                await self._load_again(child, bundle)
        except BaseException:
            child.kill()
            raise
        return child

    async def _ready(self, child: ChildConnection) -> None:
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await child.ready
        except TimeoutError as exc:
            await self._source.restart()
            raise ChildLost(f"child {child.number} was not ready within {_START_TIMEOUT_S:g} s") from exc

    async def _load_again(self, child: ChildConnection, bundle: Bundle) -> None:
        try:
            await self._load(child, bundle)
        except (ChildError, BundleUnreadable):
            self._loaded.pop(bundle.digest, None)  # The next child starts without it.
            raise


async def with_missing_bundle(
    bundles: BundleCache, attempt: Awaitable[bytes], again: Callable[[Bundle], Awaitable[bytes]]
) -> bytes:
    """Return what an attempt gives, or another one with the bundle that the child of the first lacked."""
    try:
        return await attempt
    except BundleMissing as missing:
        digest = missing.digest
    # Fetched while no child is held, so that an unknown digest costs the others nothing.
    return await again(Bundle(digest, await bundles.folder(digest)))


def _result(frame: Frame) -> bytes:
    match ReplyKind(frame.kind):
        case ReplyKind.DONE:
            return frame.payload
        case ReplyKind.REFUSED:
            refusal = orjson.loads(frame.payload)["error"]
            raise InvalidRequest(refusal["message"], param=refusal["param"], code=refusal["code"])
        case ReplyKind.MISSING:
            raise BundleMissing(Digest(frame.payload.decode()))
        case ReplyKind.UNREADABLE:
            raise BundleUnreadable(frame.payload.decode())
        case _:
            raise ChildFailed("a child failed; its log has the stack")
