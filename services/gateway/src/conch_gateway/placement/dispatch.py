"""Where a job runs: an engine slot, a worker, and another try elsewhere as long as the client has seen nothing."""

import time
from collections.abc import Awaitable, Callable

from conch_contracts.names import (
    GENERATE_PATH,
    SERVER_SHUTTING_DOWN,
    TOKENIZER_NOT_READY,
    WORKER_STORAGE_FULL,
    EngineAddress,
)
from conch_contracts.records import Engine, Route
from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.inference.stages import Stages
from conch_gateway.placement.admission import Admission, Claim, HeldSlots
from conch_gateway.placement.attempts import RETRY_AFTER_S, RequestAttempts, ServiceProcesses
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.upstream.port import AnswerLost, BodySource, ConnectFailed, UpstreamResponse, read_all
from conch_kit.errors import ServiceError, Unavailable, UpstreamError

MAX_LOST = 1
"""Workers that may break down while they have a job, and engines too: it may be the job that breaks them."""
MAX_ERROR_BYTES = 1024 * 1024
WORKERS_OWN = frozenset({SERVER_SHUTTING_DOWN, TOKENIZER_NOT_READY, WORKER_STORAGE_FULL})
"""Codes of a worker that cannot serve by its own fault: another one may, with the same engine."""


class _Refused(Exception):
    """The worker's answer is an error, and another attempt may succeed."""

    def __init__(self, error: ServiceError) -> None:
        self.error = error


class Dispatcher:
    """All workers and engines, seen as one place to run a job."""

    def __init__(
        self,
        workers: ServiceProcesses,
        admission: Admission,
        *,
        path: str = GENERATE_PATH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = workers
        self._admission = admission
        self._path = path
        self._clock = clock

    async def run(
        self,
        route: Route,
        stages: Stages,
        claim: Claim,
        message: Callable[[Engine], bytes],
        deliver: Callable[[UpstreamResponse], Awaitable[None]],
        rest: BodySource | None = None,
    ) -> None:
        """Run a job that claims so much of an engine, and deliver the answer of the first worker that accepts it.

        `message` is called when the engine is known; `rest` follows it in each attempt. Raises a ServiceError; what
        `deliver` raises passes.
        """

        async def accepted(answer: UpstreamResponse) -> None:
            await _check(answer)
            slot.accepted()
            await deliver(answer)

        arrived = self._clock()
        attempts = RequestAttempts(self._workers, route, TimeLeft(route.routing.queue_wait_s, self._clock))
        tried: frozenset[EngineAddress] = frozenset()
        lost = engines_lost = 0
        while True:
            with stages.waiting(), attempts.wait:
                await attempts.until_someone_is_there()
                slot = await self._slot(route, claim, tried, attempts, arrived)
            with slot as engine:
                try:
                    with stages.working() as headers:
                        return await attempts.ask(self._path, headers, message(engine), accepted, rest)
                except ConnectFailed:
                    if not attempts.anyone_left():  # it has not begun, so it may be asked again when one is back
                        continue
                except AnswerLost as exc:
                    if exc.started:
                        raise UpstreamError("The worker broke down.", code="upstream_lost") from exc
                    lost += 1
                    attempts.note(_broken(lost))
                except _Refused as refused:
                    if refused.error.code in WORKERS_OWN:
                        attempts.give_up(refused.error)
                    else:
                        attempts.note(refused.error)
                        tried |= {engine.grpc}
                        if isinstance(refused.error, Unavailable):  # it has not begun, so it may be asked again
                            slot.refused()
                            continue
                        engines_lost += 1
            if max(lost, engines_lost) > MAX_LOST or not attempts.may_retry():
                raise attempts.take_failure()

    async def _slot(
        self,
        route: Route,
        claim: Claim,
        tried: frozenset[EngineAddress],
        attempts: RequestAttempts,
        arrived: float,
    ) -> HeldSlots:
        """Return an engine's slots; when no engine is left, what failed before says more than that."""
        try:
            wait_s = attempts.wait.seconds()
            return await self._admission.slot(
                route.model_id, route.routing, claim, without=tried, arrived=arrived, wait_s=wait_s
            )
        except Unavailable as exc:
            raise (attempts.take_failure() if attempts.failed or tried else exc) from None


def _broken(workers: int) -> ServiceError:
    """Return the error when so many workers broke down over a job: it may be asked again, unless it breaks them all."""
    if workers > MAX_LOST:
        return UpstreamError("Two workers broke down over this request.", code="upstream_lost")
    return Unavailable("The worker broke down.", code="upstream_lost", retry_after_s=RETRY_AFTER_S)


async def _check(answer: UpstreamResponse) -> None:
    """Raise for an answer that is an error; `_Refused` when the worker says that another attempt may succeed."""
    if answer.status == 200:
        return
    error = as_error(answer.status, answer.headers, await read_all(answer, limit=MAX_ERROR_BYTES))
    raise _Refused(error) if error.retryable else error
