"""What the answers of workers have alike: the head of a stream, signs of work, the usage that the gateway keeps."""

from conch_contracts.headers import USAGE, USAGE_COMMENT, WORK_COMMENT
from conch_contracts.messages.message import Message, to_json
from conch_kit.http.asgi import Send

WORKING = WORK_COMMENT.encode() + b"\n\n"
"""The comment that an engine works while there is nothing to show."""
_STREAM_HEADERS = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"))


async def begin_stream(send: Send) -> None:
    """Send the head of a stream."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS]})


def usage_comment(usage: Message) -> bytes:
    """Return the comment that ends every stream."""
    return USAGE_COMMENT.encode() + to_json(usage) + b"\n\n"


def usage_header(usage: Message) -> tuple[bytes, bytes]:
    """Return the header of an answer that is no stream."""
    return USAGE.encode(), to_json(usage)
