"""`/tokenize` and `/detokenize`: what the tokenizer says, for models of every kind."""

from collections.abc import Sequence
from functools import partial

import orjson

from conch_contracts.messages import tokenization
from conch_contracts.messages.message import from_json, to_json
from conch_contracts.names import DETOKENIZE_PATH, TOKENIZE_PATH
from conch_contracts.openai.chat import ChatMessage
from conch_contracts.openai.tokenizing import DetokenizeRequest, TokenizeRequest
from conch_contracts.records import ModelKind, Route
from conch_gateway.answers.reply import Reply
from conch_gateway.constraints import tool_use
from conch_gateway.encoders import row_contents
from conch_gateway.errors.bad_request import conflicting, missing, unsupported, unsupported_by_model
from conch_gateway.generation.tokenizer_call import TokenizerCall, answer
from conch_gateway.http.body import parse
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.inference.picture_intake import PictureIntake
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.requests import chat_messages, content_parts
from conch_gateway.requests.model_lookup import find_route
from conch_gateway.requests.template_policy import TemplatePolicy
from conch_gateway.requests.tokenizer_request import check_vocabulary, rendering
from conch_gateway.requests.validation import typed
from conch_kit.errors import InvalidRequest
from conch_kit.http.asgi import Receive
from conch_kit.registry.snapshot import Snapshot

TOKENIZE_PATHS = ("/tokenize", "/v1/tokenize")
DETOKENIZE_PATHS = ("/detokenize", "/v1/detokenize")
_KINDS = tuple(ModelKind)


def read_texts(body: bytes, snapshot: Snapshot, policy: TemplatePolicy) -> TokenizerCall:
    """Return what a tokenize request asks for; raises a ServiceError."""
    document = parse(body)
    if document.get("messages") is not None and document.get("reasoning_effort") is not None:
        raise unsupported("reasoning_effort", "say it in 'chat_template_kwargs'")
    request, unknown = typed(TokenizeRequest, document)
    chat_messages.check(request.messages or ())
    if request.prompt is None and request.messages is None:
        raise missing("prompt")
    if request.prompt is not None and request.messages is not None:
        raise InvalidRequest(
            "Expected either 'prompt' or 'messages', not both.", param="messages", code="invalid_value"
        )
    if request.continue_final_message and request.add_generation_prompt is not False:
        raise conflicting("continue_final_message", "needs 'add_generation_prompt': false")
    for name in ("tools", "chat_template", "chat_template_kwargs"):
        if request.prompt is not None and getattr(request, name):
            raise conflicting(name, "needs 'messages'")
    policy.check(request)
    route = find_route(snapshot, request.model, kinds=_KINDS)
    if request.tools:
        tool_use.check_place(route)
    message = tokenization.EncodeTextRequest(
        digest=route.tokenizer_digest,
        prompt=request.prompt,
        chat=None if request.messages is None else _chat_input(request, request.messages, route),
        add_special_tokens=(
            request.prompt is not None if request.add_special_tokens is None else request.add_special_tokens
        ),
        return_token_strs=bool(request.return_token_strs),
        picture_limits=None if route.pictures is None else content_parts.limits(route.pictures),
    )
    return TokenizerCall.of(route, message, unknown)


def read_ids(body: bytes, snapshot: Snapshot) -> TokenizerCall:
    """Return what a detokenize request asks for; raises a ServiceError."""
    request, unknown = typed(DetokenizeRequest, parse(body))
    route = find_route(snapshot, request.model, kinds=_KINDS)
    check_vocabulary(request.tokens, route, param="tokens")
    message = tokenization.DecodeIdsRequest(
        digest=route.tokenizer_digest,
        tokens=tuple(request.tokens),
        skip_special_tokens=bool(request.skip_special_tokens),
    )
    return TokenizerCall(route, to_json(message), unknown)


def _chat_input(request: TokenizeRequest, messages: Sequence[ChatMessage], route: Route) -> tokenization.ChatInput:
    alone = route.kind.encodes and row_contents.are_pictures(route)
    if alone and (shown := content_parts.pictures(messages, route)):
        raise unsupported_by_model(shown[0].param, "the model makes a vector of a picture, and no tokens")
    return rendering(messages, route, request.chat_template)(
        tools=tool_use.shown(request.tools or ()),
        add_generation_prompt=request.add_generation_prompt is not False,
        continue_final_message=bool(request.continue_final_message),
        template_kwargs=request.chat_template_kwargs or {},
        without_template="send a text as 'prompt'",
    )


class TokenEndpoints:
    """Serves both."""

    def __init__(
        self, intake: RequestIntake, tokenizers: TokenizerClient, pictures: PictureIntake, policy: TemplatePolicy
    ) -> None:
        self._intake = intake
        self._read_texts = partial(read_texts, policy=policy)
        self._tokenizers = tokenizers
        self._pictures = pictures

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        wants_ids = exchange.path in TOKENIZE_PATHS
        exchange.endpoint = "tokenize" if wants_ids else "detokenize"
        read, path, body = (
            (self._read_texts, TOKENIZE_PATH, _tokens) if wants_ids else (read_ids, DETOKENIZE_PATH, _text)
        )
        call = await self._intake.read_and_resolve(exchange, receive, read)
        await answer(call, path, body, self._intake, self._tokenizers, self._pictures, exchange, reply)


def _text(told: bytes, _: Route) -> bytes:
    from_json(tokenization.DecodeIdsResponse, told)
    return told


def _tokens(told: bytes, route: Route) -> bytes:
    found = from_json(tokenization.EncodeTextResponse, told)
    body = {"count": len(found.tokens), "max_model_len": route.max_model_len, "tokens": found.tokens}
    return orjson.dumps({**body, "token_strs": found.token_strs})
