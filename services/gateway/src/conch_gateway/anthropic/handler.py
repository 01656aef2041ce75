"""The flow of one `POST /v1/messages` or `/v1/messages/count_tokens`.

An answer goes the way of every generating request; a count ends where the prompt is encoded.
"""

import time
from dataclasses import dataclass
from os import urandom

from conch_contracts.anthropic.request import CountTokensRequest, MessagesRequest
from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import Route
from conch_gateway.answers.protocols import MESSAGES_PREFIX
from conch_gateway.answers.reply import Reply
from conch_gateway.anthropic.chat_request import MESSAGES, NAMES, counting, resolve
from conch_gateway.anthropic.validation import validate
from conch_gateway.generation.handler import GenerationHandler
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.http.body import parse
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake, off_loop
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.requests.parameters import longest
from conch_kit.http.asgi import Receive
from conch_kit.json_bytes import json_bytes
from conch_kit.registry.snapshot import Snapshot

PATH = MESSAGES_PREFIX
COUNT_PATH = f"{MESSAGES_PREFIX}/count_tokens"


class MessagesHandler:
    """Serves `POST /v1/messages`."""

    def __init__(self, intake: RequestIntake, generation: GenerationHandler) -> None:
        self._intake = intake
        self._generation = generation

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        exchange.endpoint = MESSAGES.name
        resolved = await self._intake.read_and_resolve(exchange, receive, _resolved)
        exchange.user = resolved.request.user
        with NAMES.used():
            await self._generation.answer(resolved, MESSAGES.id_prefix + urandom(16).hex(), exchange, reply)


class CountTokensHandler:
    """Serves `POST /v1/messages/count_tokens`."""

    def __init__(self, intake: RequestIntake, tokenizers: TokenizerClient) -> None:
        self._intake = intake
        self._tokenizers = tokenizers

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        exchange.endpoint = "count_tokens"
        asked = await self._intake.read_and_resolve(exchange, receive, _counting)
        deadline = time.monotonic() + asked.route.routing.timeout_s
        with NAMES.used(), self._intake.span(exchange) as span:
            stages = self._intake.stages(exchange, span)
            async with self._intake.watchdog(reply.client, deadline) as watchdog:
                with stages.tokenizing() as headers:
                    prepared = await self._tokenizers.post(PREPARE_PATH, asked.message, headers, asked.route)
                tokens = await off_loop(len(prepared), _length, prepared)
                watchdog.activity.sending = time.monotonic()
                await reply.whole(200, json_bytes({"input_tokens": tokens}))


@dataclass(frozen=True, slots=True)
class _Counting:
    """A valid request for a count, and where it goes."""

    route: Route
    message: bytes
    """What the tokenizer is asked."""
    unknown_fields: int


def _resolved(body: bytes, snapshot: Snapshot) -> ResolvedGeneration:
    return resolve(validate(MessagesRequest, parse(body)), snapshot)


def _counting(body: bytes, snapshot: Snapshot) -> _Counting:
    validated = validate(CountTokensRequest, parse(body))
    return _Counting(*counting(validated.request, snapshot), validated.unknown_fields)


def _length(prepared: bytes) -> int:
    return longest(from_json(PrepareResponse, prepared))
