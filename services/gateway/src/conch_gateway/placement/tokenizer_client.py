"""The call to the tokenizer service: text in, ids out; asked again elsewhere when a process is gone."""

import asyncio
from collections.abc import Callable, Sequence

from conch_contracts.names import PREPARE_PATH, WorkerUrl
from conch_contracts.records import Heartbeat
from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.placement.retry_budget import RetryBudget
from conch_gateway.placement.worker_choice import WorkerBalancer
from conch_gateway.upstream.port import (
    ConnectFailed,
    ConnectTimedOut,
    Header,
    Post,
    Upstream,
    UpstreamFailure,
    read_all,
)
from conch_kit.errors import ServiceError, Unavailable

MAX_ANSWER_BYTES = 64 * 1024 * 1024
ATTEMPTS = 3
RETRY_AFTER_S = 2.0


class TokenizerClient:
    """All tokenizer processes, seen as one."""

    def __init__(
        self,
        upstream: Upstream,
        pool: Callable[[], Sequence[Heartbeat]],
        *,
        timeout_s: float,
        retries: RetryBudget,
        path: str = PREPARE_PATH,
    ) -> None:
        self._upstream = upstream
        self._pool = pool
        self._timeout_s = timeout_s
        self._retries = retries
        self._in_flight = WorkerBalancer()
        self._path = path

    async def prepare(self, body: bytes, headers: tuple[Header, ...]) -> bytes:
        """Return the answer to a `PrepareRequest`; raises a ServiceError.

        Preparing is idempotent: it is asked of another process when one is gone or says that another may do better.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._first_answer(body, headers)
        except TimeoutError:
            raise Unavailable(
                f"The prompt was not tokenized within {self._timeout_s:g} s.", retry_after_s=RETRY_AFTER_S
            ) from None

    async def _first_answer(self, body: bytes, headers: tuple[Header, ...]) -> bytes:
        self._retries.earn()
        tried: frozenset[WorkerUrl] = frozenset()
        slow: frozenset[WorkerUrl] = frozenset()
        failure: ServiceError = Unavailable("No tokenizer is running.", retry_after_s=RETRY_AFTER_S)
        for _ in range(ATTEMPTS):
            url = self._in_flight.pick(self._pool(), without=tried, at_last=slow)
            if url is None:
                break
            if tried and not self._retries.spend():
                break
            tried |= {url}
            try:
                with self._in_flight.lease(url):
                    return await self._ask(Post(url, self._path, headers, body))
            except UpstreamFailure as exc:
                if isinstance(exc, ConnectFailed):
                    self._in_flight.pass_over(url)
                slow = slow | {url} if isinstance(exc, ConnectTimedOut) else slow - {url}
                failure = Unavailable("No tokenizer answered.", retry_after_s=RETRY_AFTER_S)
            except ServiceError as exc:
                if not exc.retryable:
                    raise
                failure = exc
        raise failure

    async def _ask(self, post: Post) -> bytes:
        async with self._upstream.post(post) as answer:
            body = await read_all(answer, limit=MAX_ANSWER_BYTES)
            if answer.status != 200:
                raise as_error(answer.status, answer.headers, body)
            return body
