"""Small pieces of raw ASGI that every service uses: types, reading a body, sending an answer."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from conch_kit.errors import BodyTooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = ASGIApp
Headers = Iterable[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client hung up before its request was complete; nobody is left to answer."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of this (lower-case) name."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None


async def read_body(receive: Receive, limit: int) -> bytes:
    """Return the whole body; raises BodyTooLarge as soon as it is over the limit, ClientGone when it ends early."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(f"The request body is larger than the limit of {limit} bytes.")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a complete answer with exactly these headers and the body's length."""
    fields = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def json_response(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """Send a complete JSON answer."""
    await respond(send, status, body, [(b"content-type", b"application/json"), *headers])
