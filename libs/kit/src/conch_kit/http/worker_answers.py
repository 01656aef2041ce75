"""What the answers of workers have alike.

Of streams: the head, signs of work, the usage that the gateway keeps. Of answers in one piece: how the work on a
request ends, and how requests are counted.
"""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from conch_contracts.headers import USAGE, USAGE_COMMENT, WORK_COMMENT
from conch_contracts.messages.message import Message, to_json
from conch_kit.errors import ServiceError
from conch_kit.http.asgi import ClientGone, Send
from conch_kit.http.caller_connection import CallerConnection
from conch_kit.http.request_scope import InFlightRequests, Interruption, shutting_down
from conch_kit.metric_families import CounterFamily

T = TypeVar("T")

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


async def whole_answer(work: Awaitable[T], caller: CallerConnection, in_flight: InFlightRequests) -> T:
    """Return what the work on a request gives; raises its ServiceError, that of a drain that ended, and ClientGone."""
    outcome: T | ServiceError = shutting_down()
    async with in_flight.scope(caller) as scope:
        try:
            outcome = await work
        except ServiceError as error:
            outcome = error
    if scope.interruption is Interruption.CLIENT_GONE:
        raise ClientGone
    if isinstance(outcome, ServiceError):
        raise outcome
    return outcome


@contextmanager
def counted(requests: CounterFamily) -> Iterator[None]:
    """Surround a request and count it by its end, in what `conch_kit.metrics.outcomes` makes."""
    outcome = "500"
    try:
        yield
        outcome = "ok"
    except ServiceError as error:
        outcome = str(error.status)
        raise
    except ClientGone:
        outcome = "client_gone"
        raise
    finally:
        requests.labels(outcome).inc()
