"""The client of the tokenizer service: one message, one answer; asked again elsewhere when a process is gone."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from conch_contracts.messages.message import InvalidMessage
from conch_contracts.records import Route
from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.inference.intake import off_loop
from conch_gateway.placement.attempts import RequestAttempts, ServiceProcesses
from conch_gateway.placement.pool_return import NO_PROCESS_RETRY_S
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.upstream.port import AnswerLost, Header, UpstreamFailure, UpstreamResponse, read_all
from conch_kit.deadlines import time_limit
from conch_kit.errors import InvalidRequest, ServiceError, Unavailable, UpstreamError

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_REFUSAL_BYTES = 256 * 1024
"""Of an error, which a client's own template may word."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class TokenizerClient:
    """All tokenizer processes, seen as one."""

    def __init__(
        self, processes: ServiceProcesses, *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._processes = processes
        self._timeout_s = timeout_s
        self._clock = clock

    def wait(self, route: Route) -> TimeLeft:
        """Return how long a request may wait for tokenizers, in all that it asks them."""
        return TimeLeft(route.routing.queue_wait_s, self._clock)

    async def post(
        self,
        path: str,
        message: bytes,
        headers: tuple[Header, ...],
        route: Route,
        read: Callable[[bytes], T],
        wait: TimeLeft | None = None,
    ) -> T:
        """Return what `read` makes of the answer to a message; the path says what is to be done with it.

        Raises a ServiceError. `read` raises InvalidMessage for an answer that is none. To ask twice does no harm:
        another process is asked when one is gone, talks nonsense or says that another may do better. When
        all are away the request waits for one, no longer than the route lets it wait for an engine; one that asks
        several things hands on what is left of its `wait`.
        """
        limit = TimeLeft(self._timeout_s, self._clock)

        async def read_answer(answer: UpstreamResponse) -> T:
            body = await read_all(answer, limit=MAX_ANSWER_BYTES if answer.status == 200 else MAX_REFUSAL_BYTES)
            try:
                if answer.status != 200:
                    raise _refusal(answer, body)
                return await off_loop(len(body), read, body)
            except InvalidMessage as exc:
                log.warning("A tokenizer's answer cannot be read.", extra={"path": path, "reason": str(exc)[:200]})
                raise AnswerLost("The tokenizer's answer cannot be read.", started=True) from exc

        attempts = RequestAttempts(self._processes, route, wait or self.wait(route), len(message))
        while True:
            with attempts.wait:
                await attempts.until_someone_is_there()
            try:
                with limit, time_limit(limit.seconds()):
                    return await attempts.ask(path, headers, message, read_answer)
            except TimeoutError:
                raise Unavailable(
                    f"The prompt was not tokenized within {self._timeout_s:g} s.", retry_after_s=NO_PROCESS_RETRY_S
                ) from None
            except UpstreamFailure as exc:
                again = attempts.may_follow(exc)
            except ServiceError as exc:
                if not exc.retryable:
                    raise
                attempts.give_up(exc)
                again = attempts.may_follow(exc)
            if not again:
                raise attempts.take_failure()


def _refusal(answer: UpstreamResponse, body: bytes) -> ServiceError:
    """Return the error that an answer tells; raises InvalidMessage where a request is refused without a reason."""
    error = as_error(answer.status, answer.headers, body)
    if answer.status == InvalidRequest.status and isinstance(error, UpstreamError):
        raise InvalidMessage("a refusal without its error")
    return error
