"""The HTTP side: bodies go to a child as they are, its answer goes out as it is.

The event loop reads no prompt and renders nothing, so no prompt holds it up. What went wrong with a child becomes here
what the caller sees.
"""

import logging
from collections.abc import Mapping
from functools import partial

import orjson

from conch_contracts.names import DETOKENIZE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.errors import InternalError, InvalidRequest, ServiceError, Unavailable
from conch_kit.http.asgi import Handler, Receive, Scope, Send, json_response, read_body
from conch_tokenizer.children.connection import Ended
from conch_tokenizer.children.frames import Frame, Operation
from conch_tokenizer.children.pool import ChildPool, with_missing_bundle
from conch_tokenizer.errors import (
    TEMPLATE_ERROR,
    BundleUnreadable,
    ChildError,
    ChildHung,
    ChildLost,
    WorkStage,
)
from conch_tokenizer.http.request_count import RequestCount

log = logging.getLogger(__name__)

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


def as_service_error(exc: ChildError | BundleUnreadable, body: bytes) -> ServiceError:
    """Return what the caller is told; logs what only an operator can mend."""
    match exc:
        case ChildHung():
            return _hung(exc, body)
        case ChildLost():
            return Unavailable("the tokenizer ended twice over this request")
        case BundleUnreadable():
            log.error("A tokenizer cannot be loaded.", extra={"reason": str(exc)})
            return Unavailable("the tokenizer of this model cannot be loaded", code="tokenizer_invalid")
        case _:
            return InternalError("the tokenizer failed")


def _hung(exc: ChildHung, body: bytes) -> ServiceError:
    if exc.stage is WorkStage.ENCODING:
        return Unavailable(f"the text could not be encoded within {exc.limit_s:g} s")
    chat = orjson.loads(body).get("chat") if exc.stage is WorkStage.BEGUN else None
    if chat is not None:
        message = f"the chat template did not finish within {exc.limit_s:g} s"
        return InvalidRequest(message, param=chat.get("chat_template_param", "messages"), code=TEMPLATE_ERROR)
    return Unavailable(f"the tokenizer did not answer within {exc.limit_s:g} s", retryable=True)
