"""What the requests of this package have in common before their work begins: the body and the snapshot."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID
from conch_gateway import body
from conch_gateway.exchange import Exchange
from conch_gateway.inference import LARGE_BYTES, Bounds
from conch_gateway.upstream.port import Header
from conch_gateway.watch import Limits
from conch_kit.asgi import Receive
from conch_kit.errors import Unavailable
from conch_kit.snapshot import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Front:
    """Reads requests, within the gateway's bounds."""

    snapshot: Callable[[], Snapshot | None]
    bounds: Bounds
    internal_token: bytes | None

    async def understand(self, exchange: Exchange, receive: Receive, understand: Callable[[bytes, Snapshot], T]) -> T:
        """Read a body and have it understood, in a thread when it is large; raises a ServiceError."""
        body.check_media_type(exchange.headers)
        raw = await body.read(
            receive, exchange.headers, limit=self.bounds.max_body_bytes, timeout_s=self.bounds.body_timeout_s
        )
        snapshot = self.snapshot()
        if snapshot is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        return await off_loop(len(raw), understand, raw, snapshot)

    def headers(self, exchange: Exchange) -> tuple[Header, ...]:
        """Return the headers of calls that are made for a request."""
        token = () if self.internal_token is None else ((INTERNAL_TOKEN.encode(), self.internal_token),)
        return (REQUEST_ID.encode(), exchange.request_id.encode()), *token

    def limits(self, deadline: float) -> Limits:
        """Return the gateway's own limits: the worker keeps the deadline."""
        bounds = self.bounds
        return Limits(deadline + bounds.worker_grace_s, bounds.keep_alive_s, bounds.write_stall_s)


async def off_loop(size: int, work: Callable[..., T], *args: object) -> T:
    """Do some pure work, in a thread when it is about many bytes."""
    return await asyncio.to_thread(work, *args) if size > LARGE_BYTES else work(*args)
