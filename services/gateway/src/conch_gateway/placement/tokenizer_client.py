"""The client of the tokenizer service: one message, one answer; asked again elsewhere when a process is gone."""

from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.placement.attempts import RETRY_AFTER_S, RequestAttempts, ServiceProcesses
from conch_gateway.upstream.port import Header, UpstreamFailure, UpstreamResponse, read_all
from conch_kit.deadlines import time_limit
from conch_kit.errors import ServiceError, Unavailable

MAX_ANSWER_BYTES = 64 * 1024 * 1024


class TokenizerClient:
    """All tokenizer processes, seen as one."""

    def __init__(self, processes: ServiceProcesses, *, timeout_s: float) -> None:
        self._processes = processes
        self._timeout_s = timeout_s

    async def post(self, path: str, message: bytes, headers: tuple[Header, ...]) -> bytes:
        """Return the service's answer to a message; the path says what is to be done with it. Raises a ServiceError.

        To ask twice does no harm: another process is asked when one is gone or says that another may do better.
        """
        try:
            with time_limit(self._timeout_s):
                return await self._first_answer(path, message, headers)
        except TimeoutError:
            raise Unavailable(
                f"The prompt was not tokenized within {self._timeout_s:g} s.", retry_after_s=RETRY_AFTER_S
            ) from None

    async def _first_answer(self, path: str, message: bytes, headers: tuple[Header, ...]) -> bytes:
        attempts = RequestAttempts(self._processes)
        while True:
            try:
                return await attempts.ask(path, headers, message, _body)
            except UpstreamFailure:
                pass
            except ServiceError as exc:
                if not exc.retryable:
                    raise
                attempts.give_up(exc)
            if not (attempts.anyone_left() and attempts.may_retry()):
                raise attempts.take_failure()


async def _body(answer: UpstreamResponse) -> bytes:
    body = await read_all(answer, limit=MAX_ANSWER_BYTES)
    if answer.status != 200:
        raise as_error(answer.status, answer.headers, body)
    return body
