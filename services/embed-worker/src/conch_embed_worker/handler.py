"""The encode endpoint: reads a request, has its rows computed, and answers."""

import asyncio
import logging

from conch_contracts.messages.encoding import EncodeRequest, Row, Task
from conch_contracts.messages.generation import PreparedPicture
from conch_contracts.messages.message import changed
from conch_embed_worker.answer_bodies import answer, check_pooled
from conch_embed_worker.api_errors import service_error
from conch_embed_worker.batch_queues import BatchQueues, SizeCheck
from conch_embed_worker.batch_tensors import Numbers
from conch_embed_worker.metrics import EmbedWorkerMetrics
from conch_kit.errors import InvalidRequest
from conch_kit.http.asgi import Receive, Scope, Send, json_response
from conch_kit.http.caller_connection import connection
from conch_kit.http.message_body import read_message
from conch_kit.http.request_scope import InFlightRequests, overdue
from conch_kit.http.worker_answers import counted, whole_answer
from conch_kit.triton.checked_addresses import NO_RULES, CheckedAddresses
from conch_kit.triton.encoder_tensors import UnknownTensors
from conch_kit.triton.errors import EngineError

log = logging.getLogger(__name__)

_LARGE_NUMBERS = 64 * 1024
"""More numbers than this are written in a thread."""
_CHANNELS = 3
_POOLED = (Task.EMBED, Task.SIMILARITY)


class EncodeHandler:
    """Answers `POST /internal/v1/encode`."""

    def __init__(
        self,
        queues: BatchQueues,
        in_flight: InFlightRequests,
        metrics: EmbedWorkerMetrics,
        max_body_bytes: int,
        *,
        addresses: CheckedAddresses = NO_RULES,
    ) -> None:
        self._queues = queues
        self._addresses = addresses
        self._in_flight = in_flight
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raises ServiceError and ClientGone."""
        with counted(self._metrics.requests):
            request = await read_message(receive, EncodeRequest, limit=self._max_body_bytes)
            if not request.rows or not all(map(_is_whole, request.rows)):
                raise InvalidRequest(
                    "The EncodeRequest is not valid: rows: must hold at least one id each, or a picture's pixels",
                    param="rows",
                )
            body = await whole_answer(self._computed(request), connection(scope), self._in_flight)
            await json_response(send, 200, body)

    async def _computed(self, request: EncodeRequest) -> bytes:
        """Return the answer; raises a ServiceError in the API's words, the engine's own words go to the log."""
        target = request.target
        try:
            address = await self._addresses.dialled(target.address, target.named_in)
            if address != target.address:
                target = changed(target, address=address)
            pooling = request.pooling if request.task in _POOLED else None
            check_size = _pooled(request) if request.task is Task.POOL else None
            results = await self._queues.run(target, request.rows, pooling, request.timeout_s, check_size)
            return await _write(request, results)
        except TimeoutError:
            raise overdue() from None
        except (EngineError, UnknownTensors) as failure:
            place = {"engine": target.address, "engine_model": target.model}
            log.warning("An engine call failed.", extra={**place, "error": repr(failure)})
            raise service_error(failure) from failure


def _is_whole(row: Row) -> bool:
    picture = row.picture
    if picture is None:
        return bool(row.ids) and all(_is_among(len(row.ids), shown) for shown in row.pictures)
    positive = min(picture.height, picture.width, picture.length) > 0
    whole = positive and len(picture.pixels) == picture.height * picture.width * _CHANNELS
    return whole and not row.ids and not row.pictures


def _is_among(ids: int, shown: PreparedPicture) -> bool:
    """Return whether a picture is whole, and has its place among so many ids."""
    whole = len(shown.data) == shown.height * shown.width * _CHANNELS > 0
    return whole and shown.start >= 0 and 0 < shown.length <= ids - shown.start


def _pooled(request: EncodeRequest) -> SizeCheck:
    """Return the check that refuses an answer that would be too long, before all of it is computed."""

    def check_size(token_numbers: int) -> None:
        tokens = sum(row.tokens for row in request.rows)
        check_pooled(request, tokens * min(token_numbers, request.dimensions or token_numbers))

    return check_size


async def _write(request: EncodeRequest, results: list[Numbers]) -> bytes:
    if sum(result.size for result in results) > _LARGE_NUMBERS:
        return await asyncio.to_thread(answer, request, results)
    return answer(request, results)
