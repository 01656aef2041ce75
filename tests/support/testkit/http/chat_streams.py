"""Raw streamed requests, so that tests see frames and breaks exactly as they come."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp


@dataclass(slots=True)
class StreamResult:
    """What one streamed request gave: its text, how it ended, and what went wrong."""

    status: int = 0
    text: str = ""
    frames: int = 0
    done: bool = False
    finish_reason: str | None = None
    error: dict[str, Any] | None = None
    broken: str | None = None
    """The transport's error when the connection ended in the middle."""
    usage: dict[str, int] | None = field(default=None)


def chat_body(model: str, content: str, **more: object) -> dict[str, object]:
    """Return the body of a streamed greedy chat request with one user message."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "stream": True,
        **more,
    }


async def stream_chat(
    session: aiohttp.ClientSession, base_url: str, body: dict[str, object], first: asyncio.Event | None = None
) -> StreamResult:
    """Send one request and read its stream to the end; sets `first` when text has come."""
    result = StreamResult()
    try:
        async with session.post(f"{base_url}/chat/completions", json=body) as answer:
            result.status = answer.status
            if answer.status != 200:
                result.error = (await answer.json())["error"]
                return result
            async for line in answer.content:
                if line.startswith(b"data: "):
                    _take(result, line[6:].strip())
                    if result.text and first is not None:
                        first.set()
    except (aiohttp.ClientError, ConnectionError) as error:
        result.broken = repr(error)
    return result


def _take(result: StreamResult, data: bytes) -> None:
    if data == b"[DONE]":
        result.done = True
        return
    frame = json.loads(data)
    if "error" in frame:
        result.error = frame["error"]
        return
    result.frames += 1
    result.usage = frame.get("usage") or result.usage
    for choice in frame["choices"]:
        result.text += choice["delta"].get("content") or ""
        result.finish_reason = choice["finish_reason"] or result.finish_reason
