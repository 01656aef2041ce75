"""The flow of one `POST /v1/responses`: what the API has of its own, around the flow of every generating request.

read → validate → restore the conversation → … → save → tell that the answer is complete.
"""

from collections.abc import Callable
from functools import partial
from os import urandom

from conch_contracts.openai.responses.response import ResponsesRequest
from conch_contracts.openai.sampling import is_on
from conch_gateway.answers.reply import Reply
from conch_gateway.answers.sse_frames import error_event
from conch_gateway.generation.handler import GenerationHandler
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.http.auth import owner_of
from conch_gateway.http.body import parse
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake, off_loop
from conch_gateway.requests.validation import Validated
from conch_gateway.responses import conversation
from conch_gateway.responses.absent_client import AbsentClient, send_nowhere
from conch_gateway.responses.background import BackgroundRun
from conch_gateway.responses.chat_request import RESPONSES, resolve
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.response_saver import ResponseSaver
from conch_gateway.responses.store import ResponseStore
from conch_gateway.responses.stored_answer import UNDER_WAY, read_answer
from conch_gateway.responses.validation import check_conversation, validate
from conch_kit.errors import InvalidRequest, RateLimited
from conch_kit.http.asgi import Receive
from conch_kit.registry.snapshot import Snapshot

PATH = "/v1/responses"


class ResponsesHandler:
    """Serves `POST /v1/responses`."""

    def __init__(self, intake: RequestIntake, generation: GenerationHandler, store: ResponseStore) -> None:
        self._intake = intake
        self._generation = generation
        self._store = store
        self._runs = 0
        """How many answers are being made in the background."""

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        exchange.endpoint = RESPONSES.name
        reply.error_frame = lambda error, _: error_event(error, b"")
        raw = await self._intake.read(exchange, receive)
        validated = await off_loop(len(raw), _validated, raw)
        exchange.user, exchange.metadata = validated.request.user, validated.request.metadata
        owner = owner_of(exchange.key, exchange.headers)
        earlier = await self._earlier(validated.request, owner)
        check_conversation(validated.request, earlier)
        given = _given(validated.request)
        items, resolving = [*earlier, *given], partial(resolve, validated, earlier, given)
        wanted = validated.request.store is not False
        response_id = RESPONSES.id_prefix + urandom(16).hex()
        if is_on(validated.request.background):
            await self._in_background(resolving, items, owner, response_id, exchange, reply, len(raw))
            return
        saver = ResponseSaver(
            self._store, owner, response_id, items, wanted=wanted, lost=self._intake.metrics.responses_lost
        )
        resolved = await self._intake.resolve(exchange, len(raw), resolving)
        with resolved.names.used():
            await self._generation.answer(resolved, response_id, exchange, reply, saver)

    async def _in_background(
        self,
        resolving: Callable[[Snapshot], ResolvedGeneration],
        items: list[Item],
        owner: str,
        response_id: str,
        exchange: Exchange,
        reply: Reply,
        size: int,
    ) -> None:
        """Give the client the answer as queued, then make it; raises a ServiceError before that."""
        if self._runs >= self._intake.settings.background_responses:
            raise RateLimited("This gateway makes as many responses in the background as it may.", retry_after_s=5)
        self._runs += 1
        try:
            resolved = await self._intake.resolve(exchange, size, resolving)
            with resolved.names.used():
                run = BackgroundRun(self._store, owner, response_id, items, reply, self._intake.metrics.responses_lost)
                unheard = Reply(send_nowhere, exchange, AbsentClient(), stall_s=self._intake.settings.write_stall_s)
                work = self._generation.answer(resolved, response_id, exchange, unheard, saver=run, watcher=run)
                await run.finish(work, exchange)
        finally:
            self._runs -= 1

    async def _earlier(self, request: ResponsesRequest, owner: str) -> list[Item]:
        """Return the conversation that the request goes on from; raises InvalidRequest or Unavailable."""
        previous = request.previous_response_id
        if previous is None:
            return []
        record = await read_answer(self._store, owner, previous)
        if record is None:
            raise InvalidRequest(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        if record["response"]["status"] in UNDER_WAY:
            raise InvalidRequest(
                f"Previous response with id '{previous}' has not ended yet.",
                param="previous_response_id",
                code="previous_response_not_ready",
            )
        return [*record["input"], *record["response"]["output"]]


def _validated(raw: bytes) -> Validated[ResponsesRequest]:
    return validate(parse(raw))


def _given(request: ResponsesRequest) -> list[Item]:
    return conversation.kept(request.input, lambda: urandom(16).hex())
