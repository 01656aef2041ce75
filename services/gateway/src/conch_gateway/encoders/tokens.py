"""`/tokenize` and `/detokenize`: what the tokenizer says, for models of every kind."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from conch_contracts import tokenization
from conch_contracts.openai.tokens import DetokenizeRequest, TokenizeRequest
from conch_contracts.records import ModelKind, Route
from conch_gateway import conversation
from conch_gateway.body import parse
from conch_gateway.encoders.texts import chat_input
from conch_gateway.endpoints import encode
from conch_gateway.exchange import Exchange
from conch_gateway.front import Front, off_loop
from conch_gateway.mistakes import missing
from conch_gateway.preparation import check_vocabulary
from conch_gateway.reply import Reply
from conch_gateway.resolve import resolve
from conch_gateway.tokenizers import Tokenizers
from conch_gateway.validation import typed
from conch_kit.asgi import Receive
from conch_kit.errors import InvalidRequest
from conch_kit.snapshot import Snapshot

TOKENIZE_PATHS = ("/tokenize", "/v1/tokenize")
DETOKENIZE_PATHS = ("/detokenize", "/v1/detokenize")
_KINDS = tuple(ModelKind)


@dataclass(frozen=True, slots=True)
class Understood:
    """A valid request, and where it goes."""

    route: Route
    message: bytes
    """What the tokenizer is asked."""
    unknown_fields: int


def tokenize(body: bytes, snapshot: Snapshot) -> Understood:
    """Return what a tokenize request asks for; raises a ServiceError."""
    request, unknown = typed(TokenizeRequest, parse(body))
    conversation.check(request.messages or ())
    if request.prompt is None and request.messages is None:
        raise missing("prompt")
    if request.prompt is not None and request.messages is not None:
        raise InvalidRequest(
            "Expected either 'prompt' or 'messages', not both.", param="messages", code="invalid_value"
        )
    route = resolve(snapshot, request.model, kinds=_KINDS)
    message = tokenization.TokenizeRequest(
        digest=route.tokenizer_digest,
        prompt=request.prompt,
        chat=None
        if request.messages is None
        else chat_input(
            request.messages,
            route,
            generation_prompt=request.add_generation_prompt,
            continue_final=request.continue_final_message,
        ),
        add_special_tokens=(
            request.prompt is not None if request.add_special_tokens is None else request.add_special_tokens
        ),
        return_token_strs=bool(request.return_token_strs),
    )
    return Understood(route, encode(message), unknown)


def detokenize(body: bytes, snapshot: Snapshot) -> Understood:
    """Return what a detokenize request asks for; raises a ServiceError."""
    request, unknown = typed(DetokenizeRequest, parse(body))
    route = resolve(snapshot, request.model, kinds=_KINDS)
    check_vocabulary(request.tokens, route, param="tokens")
    message = tokenization.DetokenizeRequest(digest=route.tokenizer_digest, tokens=tuple(request.tokens))
    return Understood(route, encode(message), unknown)


class TokenEndpoints:
    """Serves both."""

    def __init__(self, front: Front, tokenize: Tokenizers, detokenize: Tokenizers) -> None:
        self._front = front
        self._tokenize = tokenize
        self._detokenize = detokenize

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        wants_ids = exchange.path in TOKENIZE_PATHS
        exchange.endpoint = "tokenize" if wants_ids else "detokenize"
        understood = await self._front.understand(exchange, receive, tokenize if wants_ids else detokenize)
        route, tokenizers = understood.route, self._tokenize if wants_ids else self._detokenize
        deadline = time.monotonic() + route.routing.timeout_s
        with self._front.span(exchange) as span:
            stages = self._front.stages(exchange, span)
            async with self._front.watch(reply.client, deadline) as watch:
                with stages.tokenizing() as headers:
                    answer = await tokenizers.prepare(understood.message, headers)
                body = await off_loop(len(answer), _tokens, answer, route) if wants_ids else answer
                watch.progress.sending = time.monotonic()
                await reply.whole(200, body)


def _tokens(answer: bytes, route: Route) -> bytes:
    found: Mapping[str, list[object] | None] = orjson.loads(answer)
    tokens = found["tokens"] or []
    body: dict[str, object] = {"count": len(tokens), "max_model_len": route.max_model_len, "tokens": tokens}
    if found.get("token_strs") is not None:
        body["token_strs"] = found["token_strs"]
    return orjson.dumps(body)
