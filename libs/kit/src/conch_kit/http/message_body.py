"""Reads the messages that services send each other, off the loop when they are long."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from conch_kit.errors import InvalidRequest
from conch_kit.http.asgi import Receive, read_body

M = TypeVar("M", bound=BaseModel)

_LARGE_BYTES = 64 * 1024
"""Messages above this are parsed in a thread: a prompt of a million ids would hold up all other requests."""


async def read_message(receive: Receive, kind: type[M], *, limit: int) -> M:
    """Return the message that a request's body holds; raises BodyTooLarge, InvalidRequest and ClientGone."""
    body = await read_body(receive, limit)
    return await asyncio.to_thread(_parse, kind, body) if len(body) > _LARGE_BYTES else _parse(kind, body)


def _parse(kind: type[M], body: bytes) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"The {kind.__name__} is not valid: {where}: {first['msg']}", param=where) from exc
