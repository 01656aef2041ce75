"""A request that a tokenizer alone answers: no engine is asked."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from conch_contracts.records import Route
from conch_gateway.answers.reply import Reply
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake, off_loop
from conch_gateway.placement.tokenizer_client import TokenizerClient


@dataclass(frozen=True, slots=True)
class TokenizerCall:
    """A valid request, and where it goes."""

    route: Route
    message: bytes
    """What the tokenizer is asked."""
    unknown_fields: int


async def answer(
    call: TokenizerCall,
    path: str,
    body: Callable[[bytes, Route], bytes],
    intake: RequestIntake,
    tokenizers: TokenizerClient,
    exchange: Exchange,
    reply: Reply,
) -> None:
    """Ask a tokenizer and send what `body` makes of its answer; raises a ServiceError, ClientGone or ClientStalled."""
    deadline = time.monotonic() + call.route.routing.timeout_s
    with intake.span(exchange) as span:
        stages = intake.stages(exchange, span)
        async with intake.watchdog(reply.client, deadline) as watchdog:
            with stages.tokenizing() as headers:
                found = await tokenizers.post(path, call.message, headers, call.route)
            made = await off_loop(len(found), body, found, call.route)
            watchdog.activity.sending = time.monotonic()
            await reply.whole(200, made)
