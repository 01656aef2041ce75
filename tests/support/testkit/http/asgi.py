"""Calls an ASGI app without a server and keeps what it sent."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from conch_kit.http.asgi import ASGIApp, Message


@dataclass(slots=True)
class Answer:
    """What an app sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False


async def call(
    app: ASGIApp,
    path: str,
    *,
    method: str = "POST",
    headers: Sequence[tuple[str, str]] = (),
    chunks: Sequence[bytes] = (b"",),
    hang_up: bool = False,
) -> Answer:
    """Send one request and return the answer; `hang_up` ends the body with a disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if hang_up:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False
    answer = Answer()

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            answer.complete = not message.get("more_body", False)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    await app(scope, receive, send)
    return answer
