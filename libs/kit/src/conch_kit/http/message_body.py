"""Reads the messages that services send each other, off the loop when they are long."""

import asyncio
from typing import TypeVar

from conch_contracts.messages.message import InvalidMessage, Message, from_json
from conch_kit.errors import InvalidRequest
from conch_kit.http.asgi import Receive, read_body

M = TypeVar("M", bound=Message)

_LARGE_BYTES = 64 * 1024
"""Messages above this are parsed in a thread: a prompt of a million ids would hold up all other requests."""


async def read_message(receive: Receive, kind: type[M], *, limit: int) -> M:
    """Return the message that a request's body holds; raises BodyTooLarge, InvalidRequest and ClientGone."""
    body = await read_body(receive, limit)
    return await asyncio.to_thread(_parse, kind, body) if len(body) > _LARGE_BYTES else _parse(kind, body)


def _parse(kind: type[M], body: bytes) -> M:
    try:
        return from_json(kind, body)
    except InvalidMessage as exc:
        raise InvalidRequest(f"The {kind.__name__} is not valid: {exc}", param=exc.where or None) from exc
