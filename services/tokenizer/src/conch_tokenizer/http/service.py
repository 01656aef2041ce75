"""The HTTP side: bodies go to a child as they are, its answer goes out as it is.

The event loop reads no prompt and renders nothing, so no prompt holds it up. What went wrong with a child becomes what
the caller sees in `child_failures`.
"""

from collections.abc import Mapping
from functools import partial

from conch_contracts.names import DETOKENIZE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.http.asgi import Handler, Receive, Scope, Send, json_response, read_body
from conch_tokenizer.children.connection import Ended
from conch_tokenizer.children.frames import Frame, Operation
from conch_tokenizer.children.pool import ChildPool, with_missing_bundle
from conch_tokenizer.errors import (
    BundleUnreadable,
    ChildError,
)
from conch_tokenizer.http.child_failures import as_service_error
from conch_tokenizer.http.request_count import RequestCount

PATHS = {
    PREPARE_PATH: Operation.PREPARE,
    TOKENIZE_PATH: Operation.TOKENIZE,
    DETOKENIZE_PATH: Operation.DETOKENIZE,
    PREPARE_ROWS_PATH: Operation.PREPARE_ROWS,
}


class TokenizerService:
    """Answers prepare, prepare-rows, tokenize and detokenize."""

    def __init__(self, pool: ChildPool, bundles: BundleCache, count: RequestCount, *, max_body_bytes: int) -> None:
        self._pool = pool
        self._bundles = bundles
        self._max_body_bytes = max_body_bytes
        self.count = count

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of each path."""
        return {path: partial(self._serve, operation) for path, operation in PATHS.items()}

    async def answer(self, operation: Operation, body: bytes, outcome: Frame | ChildError | None = None) -> bytes:
        """Return the JSON answer to a JSON request, of which a first attempt may have had an outcome already.

        Raises ServiceError.
        """
        try:
            return await self._run(operation, body, outcome)
        except (ChildError, BundleUnreadable) as exc:
            raise as_service_error(exc, body) from exc

    def begin(self, operation: Operation, body: bytes, ended: Ended) -> bool:
        """Give a request to an idle child in this very moment; False when none is idle.

        What `ended` is told is the answer when it is a frame with DONE; of anything else `answer` makes one.
        """
        return self._pool.begin(operation, body, ended)

    async def _run(self, operation: Operation, body: bytes, outcome: Frame | ChildError | None) -> bytes:
        run = partial(self._pool.run, operation, body)
        attempt = run() if outcome is None else self._pool.resume(operation, body, outcome)
        return await with_missing_bundle(self._bundles, attempt, run)

    async def _serve(self, operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, self._max_body_bytes)
        with self.count.counted(operation):
            answer = await self.answer(operation, body)
        await json_response(send, 200, answer)
