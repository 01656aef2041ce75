"""Where a job runs: an engine slot, a worker, and another try elsewhere as long as the client has seen nothing."""

import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

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
from conch_gateway.placement.admission import Admission, EnginesGone, TakenSlots
from conch_gateway.placement.attempts import RequestAttempts, ServiceProcesses
from conch_gateway.placement.claim import Claim
from conch_gateway.placement.holds import end_of_hold
from conch_gateway.placement.pool_return import NO_PROCESS_RETRY_S
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.upstream.port import AnswerLost, BodySource, UpstreamFailure, UpstreamResponse, read_all
from conch_kit.errors import ServiceError, Unavailable, UpstreamError

MAX_LOST = 1
"""Workers that may break down while they have a job, and engines too: it may be the job that breaks them."""
MAX_ERROR_BYTES = 1024 * 1024
WORKERS_OWN = frozenset({SERVER_SHUTTING_DOWN, TOKENIZER_NOT_READY, WORKER_STORAGE_FULL})
"""Codes of a worker that cannot serve by its own fault: another one may, with the same engine."""

_NOT_COUNTED = nullcontext()


def _nobody() -> None:
    """Hear of a failed attempt that concerns nobody."""


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

    def holds(self, route: Route) -> bool:
        """Tell whether a job for this model waits for an engine to start."""
        return self._admission.holds(route.model_id)

    def has_files_of(self, route: Route) -> bool:
        """Tell whether the engines of a model hold the very files that this route was written for."""
        return self._admission.has_files_of(route)

    def all_outdated(self, route: Route) -> bool:
        """Tell whether a model has engines, and all of them still hold other files than its route was written for."""
        return self._admission.all_outdated(route.model_id)

    def wait(self, route: Route, claim: Claim) -> TimeLeft:
        """Return how long a job may wait for slots and workers, in all of its attempts."""
        return TimeLeft(claim.patience_s(route.routing), self._clock)

    async def run(
        self,
        route: Route,
        stages: Stages,
        claim: Claim,
        message: Callable[[Engine], bytes],
        deliver: Callable[[UpstreamResponse], Awaitable[None]],
        rest: BodySource | None = None,
        *,
        wait: TimeLeft | None = None,
        failed: Callable[[], None] = _nobody,
    ) -> None:
        """Run a job that claims so much of an engine, and deliver the answer of the first worker that accepts it.

        `message` is called when the engine is known; `rest` follows it in each attempt. One that has waited already
        hands on what is left of its `wait`. `failed` hears of each attempt that has failed. Raises a ServiceError; what
        `deliver` raises passes.
        """
        arrived = self._clock()
        attempts = RequestAttempts(self._workers, route, wait or self.wait(route, claim), claim.size)
        failures = _Failures(attempts, limited=claim.max_wait_s is not None)
        while True:
            if not attempts.anyone_left():
                with stages.waiting(), attempts.wait:
                    await attempts.until_someone_is_there()
            slot = None
            while slot is None:
                slot = await self._slot(route, stages, claim, failures, arrived)
            began = self._clock()
            with slot as engine:
                try:
                    with stages.working() as headers:
                        read = partial(_read, slot, deliver)
                        return await attempts.ask(self._path, headers, message(engine), read, rest)
                except (UpstreamFailure, _Refused) as failure:
                    failed()
                    again = failures.may_be_mended(failure, slot, self._clock() - began)
            if not again:
                raise attempts.take_failure()

    async def _slot(
        self, route: Route, stages: Stages, claim: Claim, failures: "_Failures", arrived: float
    ) -> TakenSlots | None:
        """Wait for a slot; return None where the last engine has gone, and the request is held if it asks again.

        What passes while an engine starts is counted apart, and not taken off the time for anything else.
        """
        held, attempts = self.holds(route), failures.attempts
        with stages.holding(end_of_hold) if held else stages.waiting(), _NOT_COUNTED if held else attempts.wait:
            try:
                return await self._admission.slot(
                    route.model_id,
                    route.routing,
                    claim,
                    without=failures.tried,
                    arrived=arrived,
                    wait_s=attempts.wait.seconds(),
                    route=route,
                )
            except EnginesGone:
                return None
            except Unavailable as exc:  # when no engine is left, what failed before says more than that
                raise (attempts.take_failure() if failures.any() and not held else exc) from None


@dataclass(slots=True)
class _Failures:
    """How the attempts of one job have failed, and which of that another attempt may mend."""

    attempts: RequestAttempts
    limited: bool
    """Whether the client says how long it waits at most."""
    tried: frozenset[EngineAddress] = frozenset()
    """Engines that could not take the job, or broke down over it."""
    workers_lost: int = 0
    engines_lost: int = 0

    def any(self) -> bool:
        """Tell whether there is more to say than that no engine is left."""
        return bool(self.attempts.failed or self.tried)

    def may_be_mended(self, failure: UpstreamFailure | _Refused, slot: TakenSlots, took_s: float) -> bool:
        """Note how an attempt on this slot has failed after so long; tell whether there may be another one."""
        if isinstance(failure, AnswerLost):
            return self._worker_lost(failure)
        if not isinstance(failure, _Refused):
            return self.attempts.may_follow(failure)
        if failure.error.code in WORKERS_OWN:
            self.attempts.give_up(failure.error)
            return self.attempts.may_follow(failure)
        return self._engine_failed(failure, slot, took_s)

    def _worker_lost(self, failure: AnswerLost) -> bool:
        self.workers_lost += 1
        self.attempts.note(_broken(self.workers_lost, started=failure.started))
        return not failure.started and self.workers_lost <= MAX_LOST and self.attempts.may_follow(failure)

    def _engine_failed(self, failure: _Refused, slot: TakenSlots, took_s: float) -> bool:
        counts = self.limited or bool(self.tried)
        self.attempts.note(failure.error)
        self.tried |= {slot.engine.grpc}
        if isinstance(failure.error, Unavailable):  # it has not begun, so it may be asked again
            slot.refused()
            if counts:  # an engine that says nothing is as good as none; the first may just have been frozen
                self.attempts.wait.use(took_s)
            return True
        self.engines_lost += 1
        return self.engines_lost <= MAX_LOST and self.attempts.may_follow(failure)


async def _read(
    slot: TakenSlots, deliver: Callable[[UpstreamResponse], Awaitable[None]], answer: UpstreamResponse
) -> None:
    await _check(answer)
    slot.accepted()
    await deliver(answer)


def _broken(workers: int, *, started: bool) -> ServiceError:
    """Return the error when so many workers broke down over a job.

    It may be asked again, unless it breaks them all, or the last one had `started` to answer.
    """
    if started:
        return UpstreamError("The worker broke down.", code="upstream_lost")
    if workers > MAX_LOST:
        return UpstreamError("Two workers broke down over this request.", code="upstream_lost")
    return Unavailable("The worker broke down.", code="upstream_lost", retry_after_s=NO_PROCESS_RETRY_S)


async def _check(answer: UpstreamResponse) -> None:
    """Raise for an answer that is an error; `_Refused` when the worker says that another attempt may succeed."""
    if answer.status == 200:
        return
    error = as_error(answer.status, answer.headers, await read_all(answer, limit=MAX_ERROR_BYTES))
    raise _Refused(error) if error.retryable else error
