"""Where a job runs: an engine slot, a worker, and another try elsewhere as long as the client has seen nothing."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from conch_contracts.names import (
    GENERATE_PATH,
    SERVER_SHUTTING_DOWN,
    TOKENIZER_NOT_READY,
    EngineAddress,
    WorkerUrl,
)
from conch_contracts.records import Engine, Heartbeat, Route
from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.inference.stages import Stages
from conch_gateway.placement.admission import Admission, Claim, Slot
from conch_gateway.placement.retry_budget import RetryBudget
from conch_gateway.placement.worker_choice import WorkerBalancer
from conch_gateway.upstream.port import (
    AnswerLost,
    ConnectFailed,
    ConnectTimedOut,
    Header,
    Post,
    Upstream,
    UpstreamResponse,
    read_all,
)
from conch_kit.errors import ServiceError, Unavailable, UpstreamError

RETRIES = 2
RETRY_AFTER_S = 2.0
MAX_ERROR_BYTES = 1024 * 1024
WORKERS_OWN = frozenset({SERVER_SHUTTING_DOWN, TOKENIZER_NOT_READY})
"""Codes of a worker that cannot serve by its own fault: another one may, with the same engine."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Where a job has been already, and what came of it last."""

    engines: frozenset[EngineAddress] = frozenset()
    workers: frozenset[WorkerUrl] = frozenset()
    slow: frozenset[WorkerUrl] = frozenset()
    """Those workers that took no connection in time: one of them is asked again when nobody else is left."""
    attempts: int = 0
    lost: int = 0
    """Workers that broke down while they had the job: it may be the job that breaks them."""
    failure: ServiceError | None = None


class _Again(Exception):
    """An attempt failed before its first byte, and another may succeed."""

    def __init__(self, tried: Tried) -> None:
        self.tried = tried


class Dispatcher:
    """All workers and engines, seen as one place to run a job."""

    def __init__(
        self,
        upstream: Upstream,
        admission: Admission,
        pool: Callable[[], Sequence[Heartbeat]],
        *,
        retries: RetryBudget,
        path: str = GENERATE_PATH,
    ) -> None:
        self._upstream = upstream
        self._admission = admission
        self._pool = pool
        self._retries = retries
        self._in_flight = WorkerBalancer()
        self._path = path

    async def run(
        self,
        route: Route,
        stages: Stages,
        claim: Claim,
        message: Callable[[Engine], bytes],
        deliver: Callable[[UpstreamResponse], Awaitable[None]],
    ) -> None:
        """Run a job that claims so much of an engine, and deliver the answer of the first worker that accepts it.

        `message` is called when the engine is known. Raises a ServiceError; what `deliver` raises passes.
        """
        self._retries.earn()
        tried = Tried()
        while True:
            with stages.waiting():
                slot = await self._slot(route, claim, tried)
            with slot as engine:
                try:
                    with stages.working() as headers:
                        return await self._attempt(engine, headers, message(engine), deliver, tried)
                except _Again as again:
                    tried = replace(again.tried, attempts=tried.attempts + 1)
            if tried.attempts > RETRIES or tried.lost > 1 or not self._retries.spend():
                raise tried.failure or UpstreamError("No worker answered.")

    async def _slot(self, route: Route, claim: Claim, tried: Tried) -> Slot:
        """Return an engine's slots; when no engine is left, what failed before says more than that."""
        try:
            return await self._admission.slot(route.model_id, route.routing, claim, without=tried.engines)
        except Unavailable as exc:
            raise tried.failure or exc from None

    async def _attempt(
        self,
        engine: Engine,
        headers: tuple[Header, ...],
        body: bytes,
        deliver: Callable[[UpstreamResponse], Awaitable[None]],
        tried: Tried,
    ) -> None:
        worker = self._in_flight.pick(self._pool(), without=tried.workers, at_last=tried.slow)
        if worker is None:
            raise tried.failure or Unavailable("No worker is running.", retry_after_s=RETRY_AFTER_S)
        try:
            with self._in_flight.lease(worker):
                async with self._upstream.post(Post(worker, self._path, headers, body)) as answer:
                    await _check(answer, worker, engine, tried)
                    return await deliver(answer)
        except ConnectFailed as exc:
            self._in_flight.pass_over(worker)
            failure: ServiceError = Unavailable("No worker answered.", retry_after_s=RETRY_AFTER_S)
            slow = tried.slow | {worker} if isinstance(exc, ConnectTimedOut) else tried.slow - {worker}
            raise _Again(replace(tried, workers=tried.workers | {worker}, slow=slow, failure=failure)) from None
        except AnswerLost as exc:
            if exc.started:
                raise UpstreamError("The worker broke down.", code="upstream_lost") from exc
            lost = tried.lost + 1
            again = replace(tried, workers=tried.workers | {worker}, lost=lost, failure=_broken(lost))
            raise _Again(again) from None


def _broken(workers: int) -> ServiceError:
    """Return the error when so many workers broke down over a job: it may be asked again, unless it breaks them all."""
    if workers > 1:
        return UpstreamError("Two workers broke down over this request.", code="upstream_lost")
    return Unavailable("The worker broke down.", code="upstream_lost", retry_after_s=RETRY_AFTER_S)


async def _check(answer: UpstreamResponse, worker: WorkerUrl, engine: Engine, tried: Tried) -> None:
    """Raise for an answer that is an error; another engine or worker gets a try when the worker says that it may."""
    if answer.status == 200:
        return
    error = as_error(answer.status, answer.headers, await read_all(answer, limit=MAX_ERROR_BYTES))
    if not error.retryable:
        raise error
    if error.code in WORKERS_OWN:
        raise _Again(replace(tried, workers=tried.workers | {worker}, failure=error))
    raise _Again(replace(tried, engines=tried.engines | {engine.grpc}, failure=error))
