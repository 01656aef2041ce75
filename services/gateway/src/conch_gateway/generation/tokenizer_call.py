"""A request that a tokenizer alone answers: no engine is asked."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from conch_contracts.messages.message import to_json
from conch_contracts.messages.tokenization import EncodeTextRequest, PrepareRequest
from conch_contracts.records import Route
from conch_gateway.answers.reply import Reply
from conch_gateway.errors.chat_names import NO_OTHER_NAMES, ChatNames
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.inference.picture_intake import PictureIntake
from conch_gateway.placement.tokenizer_client import TokenizerClient


@dataclass(frozen=True, slots=True)
class TokenizerCall:
    """A valid request, and where it goes."""

    route: Route
    message: bytes
    """What the tokenizer is asked; empty where that has pictures."""
    unknown_fields: int
    with_pictures: PrepareRequest | EncodeTextRequest | None = None
    """What it is asked about a prompt with pictures: something is to be added yet."""
    names: ChatNames = NO_OTHER_NAMES
    """What its API calls the parameters of chat."""

    @classmethod
    def of(
        cls,
        route: Route,
        work: PrepareRequest | EncodeTextRequest,
        unknown_fields: int,
        names: ChatNames = NO_OTHER_NAMES,
    ) -> "TokenizerCall":
        """Return the call that asks for this work, which is written at once unless there are pictures."""
        if work.chat is not None and work.chat.pictures:
            return cls(route, b"", unknown_fields, work, names)
        return cls(route, to_json(work), unknown_fields, names=names)


async def answer(
    call: TokenizerCall,
    path: str,
    body: Callable[[bytes, Route], bytes],
    intake: RequestIntake,
    tokenizers: TokenizerClient,
    pictures: PictureIntake,
    exchange: Exchange,
    reply: Reply,
) -> None:
    """Ask a tokenizer and send what `body` makes of its answer; raises a ServiceError, ClientGone or ClientStalled."""
    deadline = time.monotonic() + call.route.routing.timeout_s
    with intake.span(exchange) as span:
        stages = intake.stages(exchange, span)
        async with intake.watchdog(reply.client, deadline) as watchdog:
            message = call.message
            if call.with_pictures is not None:
                message = await pictures.written(call.with_pictures, call.route, exchange)
            with stages.tokenizing() as headers:
                made = await tokenizers.post(path, message, headers, call.route, lambda told: body(told, call.route))
            watchdog.activity.sending = time.monotonic()
            await reply.whole(200, made)
