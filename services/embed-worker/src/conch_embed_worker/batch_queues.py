"""Brings the rows of all requests to the engines, batch by batch; `batch_selection` decides which go together.

There is one queue for each model of an engine, one for its texts with pictures in them, and one for each size of
pictures that it is shown. While the engine has nothing to do a batch leaves at once, with whatever is there; while it
works, requests gather. So the batches grow with the load, and no clock makes anybody wait.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self

from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_contracts.messages.encoding import EncoderTarget, Row
from conch_contracts.records import Pooling
from conch_embed_worker.batch_selection import BatchLimits, BatchMember, WaitingRows, next_batch
from conch_embed_worker.batch_tensors import Numbers
from conch_embed_worker.engine_calls import EncoderCalls
from conch_embed_worker.metrics import EmbedWorkerMetrics
from conch_embed_worker.pooling import pool
from conch_kit.deadlines import deadlines
from conch_kit.errors import InternalError, ServiceError
from conch_kit.triton.encoder_tensors import (
    EncoderTensors,
    read_encoder_tensors,
    read_picture_tensors,
    read_seeing_tensors,
)
from conch_kit.triton.errors import EngineError, EngineRejected

log = logging.getLogger(__name__)

MAX_QUEUES = 512
"""Beyond this the least recently used ones go that have nothing to do: what is more has requests of its own."""

MAX_OUTPUT_BYTES = 48 * 1024 * 1024
"""Of one batch; well below what a gRPC message may hold."""

_CHANNELS = 3

WIDE = 4096
"""Numbers that a token may have before an answer has shown how many it has."""

PictureSize = tuple[int, int]
"""Height and width."""
RowShape = PictureSize | Literal["text", "text with pictures"]
"""What rows must have in common to share a batch."""
QueueKey = tuple[str, str, tuple[tuple[str, str], ...], str | None, float, Pooling | None, RowShape]


SizeCheck = Callable[[int], None]
"""Called with how many numbers the model gives for each token, once that is known; raises InvalidRequest."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """The rows of one request, and what has come of them."""

    waiting: WaitingRows
    when: float
    """When its time is over, on the loop's clock."""
    done: asyncio.Future[list[Numbers]]
    results: list[Numbers | None] = field(default_factory=list)
    missing: int = 0
    check_size: SizeCheck | None = None

    def check(self, token_numbers: int) -> None:
        """End the request where so many numbers for each token make its answer too long."""
        try:
            if self.check_size is not None:
                self.check_size(token_numbers)
        except ServiceError as error:
            self.fail(error)

    def fail(self, error: EngineError | ServiceError | TimeoutError) -> None:
        """End the request with an error."""
        if not self.done.done():
            self.done.set_exception(error)

    def due(self, now: float) -> None:
        """End the request because its time is over."""
        deadlines().remove(self)
        self.fail(TimeoutError())

    def put(self, index: int, numbers: Numbers) -> None:
        """Take the result of one row; the last one ends the request."""
        self.results[index] = numbers
        self.missing -= 1
        if self.missing == 0 and not self.done.done():
            self.done.set_result([result for result in self.results if result is not None])


class BatchQueue:
    """One model of one engine."""

    def __init__(
        self,
        target: EncoderTarget,
        encoder: EncoderTensors,
        pooling: Pooling | None,
        most_tokens: int,
        compute: Callable[["BatchQueue", list[BatchMember]], Coroutine[object, object, None]],
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
    ) -> None:
        self.target = target
        self.encoder = encoder
        self.pooling = pooling
        self._most_tokens = most_tokens
        self._token_numbers = encoder.token_numbers
        self._limits = self._bounds()
        self._compute = compute
        self._spawn = spawn
        self._queue: deque[WaitingRows] = deque()
        self.requests: dict[WaitingRows, PendingRequest] = {}
        self._batches: dict[asyncio.Task[Any], list[BatchMember]] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.requests and not self._batches

    async def run(self, rows: Sequence[Row], deadline: float, check_size: SizeCheck | None) -> list[Numbers]:
        """Return the result of each row, in order.

        Raises EngineError, InternalError, TimeoutError and what `check_size` raises.
        """
        if check_size is not None and self._token_numbers is not None:
            check_size(self._token_numbers)
        waiting = WaitingRows(rows)
        request = PendingRequest(
            waiting, deadline, asyncio.get_running_loop().create_future(), [None] * len(rows), len(rows), check_size
        )
        self.requests[waiting] = request
        deadlines().add(request)
        try:
            if len(rows) == 1 and not self._queue and self._free:
                await self._compute_here([BatchMember(waiting, 0)])
            else:
                self._queue.append(waiting)
                self._dispatch()
            return await request.done
        finally:
            deadlines().remove(request)
            del self.requests[waiting]
            if waiting in self._queue:
                self._queue.remove(waiting)
            self._cancel_abandoned()

    def _cancel_abandoned(self) -> None:
        """Cancel the batches that nobody waits for any more."""
        for task, members in self._batches.items():
            if not any(member.owner in self.requests for member in members):
                task.cancel()

    @property
    def _free(self) -> bool:
        """Whether the engine can take one more batch."""
        return len(self._batches) < self.encoder.parallel

    async def _compute_here(self, members: list[BatchMember]) -> None:
        """Compute a single row in its request's own task: another one would cost more than all that is done to it."""
        task = asyncio.current_task()
        assert task is not None
        self._batches[task] = members
        try:
            await self._compute(self, members)
        finally:
            self._finished(task)

    def _dispatch(self) -> None:
        """Send batches as long as the engine can take them."""
        while self._free and (members := next_batch(self._queue, self._limits)):
            task = self._spawn(self._compute(self, members))
            self._batches[task] = members
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        """Note that a batch has ended, also before it began, and send the next."""
        del self._batches[task]
        self._dispatch()

    def learn_size(self, numbers: Numbers) -> None:
        """Read from an answer how many numbers each token has, where the model's config does not say so."""
        if self._token_numbers is not None:
            return
        self._token_numbers = numbers.shape[-1] if numbers.ndim == 3 else 0
        self._limits = self._bounds()
        for request in self.requests.values():
            request.check(self._token_numbers)

    def _bounds(self) -> BatchLimits:
        """Return what a batch may hold so that its output is a message that can be received."""
        numbers = WIDE if self._token_numbers is None else self._token_numbers
        if numbers == 0:
            return BatchLimits(self.encoder.max_rows, self._most_tokens)
        fitting = MAX_OUTPUT_BYTES // (numbers * self.encoder.number_bytes)
        return BatchLimits(self.encoder.max_rows, max(1, min(self._most_tokens, fitting)))

    def deadline(self, members: Sequence[BatchMember]) -> float:
        """Return when the last of these rows' requests must be done."""
        known = (self.requests.get(member.owner) for member in members)
        return max((request.when for request in known if request is not None), default=0.0)

    def failed(self, members: Sequence[BatchMember], error: EngineError | ServiceError) -> None:
        """Fail the requests of a batch; where one row may have spoilt it for the others, each is tried alone."""
        owners = {member.owner for member in members}
        for owner in owners:
            request = self.requests.get(owner)
            if request is None:
                continue
            if len(owners) > 1 and isinstance(error, EngineRejected):
                owner.alone = True
                owner.put_back(member.index for member in members if member.owner is owner)
                if owner not in self._queue:
                    self._queue.append(owner)
            else:
                request.fail(error)  # what still waits of it leaves the queue in `run`


class BatchQueues:
    """All queues of this process."""

    def __init__(self, engines: EncoderCalls, metrics: EmbedWorkerMetrics, max_batch_tokens: int) -> None:
        self._engines = engines
        self._metrics = metrics
        self._max_batch_tokens = max_batch_tokens
        self._queues: OrderedDict[QueueKey, BatchQueue] = OrderedDict()
        self._group = asyncio.TaskGroup()
        self._batches: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._batches:  # one that ends may be followed by the next
            for task in self._batches:
                task.cancel()
            await asyncio.wait(self._batches)
        await self._group.__aexit__(kind, error, trace)

    async def run(
        self,
        target: EncoderTarget,
        rows: Sequence[Row],
        pooling: Pooling | None,
        timeout_s: float,
        check_size: SizeCheck | None = None,
    ) -> list[Numbers]:
        """Return the result of each row: one vector with a pooling, without one all that the model gives.

        Raises EngineError, InternalError, TimeoutError, UnknownTensors for a model that is no encoder, and what
        `check_size` raises.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        places = _by_shape(rows)
        if len(places) == 1:
            (shape,) = places
            return await self._run(target, rows, pooling, shape, deadline, check_size)
        results: dict[int, Numbers] = {}
        for shape, indexes in places.items():
            alike = [rows[index] for index in indexes]
            found = await self._run(target, alike, pooling, shape, deadline, check_size)
            results.update(zip(indexes, found, strict=True))
        return [results[index] for index in range(len(rows))]

    async def _run(
        self,
        target: EncoderTarget,
        rows: Sequence[Row],
        pooling: Pooling | None,
        shape: RowShape,
        deadline: float,
        check_size: SizeCheck | None,
    ) -> list[Numbers]:
        """Return the result of each of these rows, which have one shape."""
        names = tuple(sorted(target.inputs.items()))
        key = (target.address, target.model, names, target.output, target.patience_s, pooling, shape)
        queue = self._queues.get(key) or await self._open(key, target, pooling, deadline)
        self._queues.move_to_end(key)
        try:
            return await queue.run(rows, deadline, check_size)
        except EngineError:
            if self._queues.get(key) is queue:
                del self._queues[key]  # another model may be there: its config is read again
            raise

    async def _open(self, key: QueueKey, target: EncoderTarget, pooling: Pooling | None, deadline: float) -> BatchQueue:
        async with asyncio.timeout_at(deadline):
            config = await self._engines.model_config(target.address, target.model)
        if key in self._queues:
            return self._queues[key]
        encoder = _tensors(config, target, key[-1])
        self._make_room()
        queue = BatchQueue(target, encoder, pooling, self._max_batch_tokens, self._compute, self._spawn)
        self._queues[key] = queue
        return queue

    def _make_room(self) -> None:
        """Forget idle queues, those that were used longest ago first, until one more may come."""
        excess = len(self._queues) + 1 - MAX_QUEUES
        if excess > 0:
            idle = (key for key, queue in self._queues.items() if queue.idle)
            for key in list(islice(idle, excess)):
                del self._queues[key]

    def _spawn(self, batch: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = self._group.create_task(batch)
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)
        return task

    async def _compute(self, queue: BatchQueue, members: list[BatchMember]) -> None:
        rows = [member.row for member in members]
        lengths = [row.tokens for row in rows]
        left_s = queue.deadline(members) - asyncio.get_running_loop().time()
        timeout_s = max(0.001, min(left_s, queue.target.patience_s))
        try:
            numbers = await self._engines.compute(
                queue.target.address, queue.target.model, rows, queue.encoder, timeout_s=timeout_s
            )
            _deliver(queue, members, lengths, numbers)
        except EngineError as error:
            queue.failed(members, error)
        except Exception:  # the edge of a batch: whatever it is, it must not end the other batches
            log.exception("A batch failed.", extra={"engine": queue.target.address, "engine_model": queue.target.model})
            queue.failed(members, InternalError("Internal error."))
        else:
            record = partial(self._metrics.batch, rows=len(rows), tokens=sum(lengths), width=max(lengths))
            asyncio.get_running_loop().call_soon(record)  # behind the answers, which wait for nothing else


def _by_shape(rows: Sequence[Row]) -> dict[RowShape, list[int]]:
    """Return the places of the rows of each shape: texts, those with pictures in them, and pictures of each size."""
    places: dict[RowShape, list[int]] = {}
    for index, row in enumerate(rows):
        places.setdefault(_shape(row), []).append(index)
    return places


def _shape(row: Row) -> RowShape:
    if row.picture is not None:
        return row.picture.height, row.picture.width
    return "text with pictures" if row.pictures else "text"


def _tensors(config: ModelConfig, target: EncoderTarget, shape: RowShape) -> EncoderTensors:
    """Return how rows of a shape are sent to a model; raises UnknownTensors."""
    match shape:
        case "text":
            return read_encoder_tensors(config, target.inputs, target.output)
        case "text with pictures":
            return read_seeing_tensors(config, target.inputs, target.output)
        case height, width:
            return read_picture_tensors(config, _CHANNELS * height * width)


def _deliver(queue: BatchQueue, members: Sequence[BatchMember], lengths: Sequence[int], numbers: Numbers) -> None:
    queue.learn_size(numbers)
    if queue.pooling is not None:
        numbers = pool(numbers, lengths, queue.pooling)
    for member, length, row in zip(members, lengths, numbers, strict=True):
        request = queue.requests.get(member.owner)
        if request is not None:
            request.put(member.index, row[:length] if row.ndim == 2 else row)
