"""The flow of one `POST /v1/messages` or `/v1/messages/count_tokens`.

An answer goes the way of every generating request; a count ends where the prompt is encoded.
"""

from os import urandom

from conch_contracts.anthropic.request import CountTokensRequest, MessagesRequest
from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import Route
from conch_gateway.answers.protocols import MESSAGES_PREFIX
from conch_gateway.answers.reply import Reply
from conch_gateway.anthropic.chat_request import MESSAGES, counting, resolve
from conch_gateway.anthropic.validation import validate
from conch_gateway.generation.handler import GenerationHandler
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.generation.tokenizer_call import TokenizerCall, answer
from conch_gateway.http.body import parse
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.inference.picture_intake import PictureIntake
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
        with resolved.names.used():
            await self._generation.answer(resolved, MESSAGES.id_prefix + urandom(16).hex(), exchange, reply)


class CountTokensHandler:
    """Serves `POST /v1/messages/count_tokens`."""

    def __init__(self, intake: RequestIntake, tokenizers: TokenizerClient, pictures: PictureIntake) -> None:
        self._intake = intake
        self._tokenizers = tokenizers
        self._pictures = pictures

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        exchange.endpoint = "count_tokens"
        call = await self._intake.read_and_resolve(exchange, receive, _counting)
        with call.names.used():
            await answer(call, PREPARE_PATH, _count, self._intake, self._tokenizers, self._pictures, exchange, reply)


def _resolved(body: bytes, snapshot: Snapshot) -> ResolvedGeneration:
    return resolve(validate(MessagesRequest, parse(body)), snapshot)


def _counting(body: bytes, snapshot: Snapshot) -> TokenizerCall:
    return counting(validate(CountTokensRequest, parse(body)), snapshot)


def _count(prepared: bytes, _: Route) -> bytes:
    return json_bytes({"input_tokens": longest(from_json(PrepareResponse, prepared))})
