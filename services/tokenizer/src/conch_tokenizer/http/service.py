"""The HTTP side: bodies go to a child as they are, its answer goes out as it is.

Small requests come here only when a lane cannot take them. The event loop renders nothing and reads no prompt, so none
holds it up; only where a child hung, `child_failures` looks whether the body has a conversation. What went wrong with a
child becomes there what the caller sees.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial

from conch_contracts.headers import LANE_LACKS, LEFT_BY_LANE
from conch_contracts.messages.tokenizer_frames import LANE_OPERATIONS, MAX_LANE_REQUEST_BYTES, Operation
from conch_contracts.names import LANE_PATH, Digest
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.errors import ServiceError
from conch_kit.http.asgi import Handler, Receive, Scope, Send, header, json_response, read_body, respond
from conch_kit.http.caller_connection import connection
from conch_tokenizer.children.lanes import Lanes
from conch_tokenizer.children.pool import Bundle, ChildPool, with_missing_bundle
from conch_tokenizer.errors import BundleUnreadable, ChildError
from conch_tokenizer.http.child_failures import as_service_error
from conch_tokenizer.http.request_count import RequestCount

log = logging.getLogger(__name__)

_LEFT_BY_LANE, _LANE_LACKS = LEFT_BY_LANE.encode(), LANE_LACKS.encode()


class TokenizerService:
    """Answers prepare, prepare-rows, tokenize and detokenize."""

    def __init__(
        self,
        small: ChildPool,
        large: ChildPool,
        lanes: Lanes,
        bundles: BundleCache,
        count: RequestCount,
        *,
        max_body_bytes: int,
    ) -> None:
        """Make one; requests that are too large for a lane go to the children of `large`."""
        self._small = small
        self._large = large
        self._lanes = lanes
        self._bundles = bundles
        self._count = count
        self._max_body_bytes = max_body_bytes
        self._loading: dict[tuple[int, Digest], asyncio.Task[None]] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of each path."""
        return {path: partial(self._serve, operation) for path, operation in LANE_OPERATIONS.items()}

    def lane_handler(self) -> Mapping[str, Handler]:
        """Return the handler that makes connections lanes."""
        return {LANE_PATH: self._make_lane}

    async def _serve(self, operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, self._max_body_bytes)
        with self._count.counted(operation):
            answer = await self._answer(operation, body, await self._left_by_lane(scope))
            self._load_what_lane_lacks(scope)
        await json_response(send, 200, answer)

    async def _answer(self, operation: Operation, body: bytes, outcome: ChildError | None) -> bytes:
        """Return the JSON answer to a JSON request, over which a lane's child may have ended; raises ServiceError."""
        pool = self._large if len(body) > MAX_LANE_REQUEST_BYTES else self._small
        run = partial(pool.run, operation, body)
        try:
            attempt = run() if outcome is None else pool.run_after(outcome, operation, body)
            return await with_missing_bundle(self._bundles, attempt, run)
        except (ChildError, BundleUnreadable) as exc:
            raise as_service_error(exc, body) from exc

    async def _left_by_lane(self, scope: Scope) -> ChildError | None:
        given = header(scope, _LEFT_BY_LANE)
        if given is None:
            return None
        lane, _, number = given.decode().partition(".")
        return await self._lanes.outcome(int(lane), int(number))

    def _load_what_lane_lacks(self, scope: Scope) -> None:
        """Begin to load a tokenizer in the child of a lane that could not serve a request without it."""
        given = header(scope, _LANE_LACKS)
        if given is None:
            return
        lane, _, name = given.decode().partition(".")
        child, digest = self._lanes.child(int(lane)), Digest(name)
        if child is None or (child.number, digest) in self._loading:
            return

        async def load() -> None:
            try:
                await self._small.load(child, Bundle(digest, await self._bundles.folder(digest)))
            except (ChildError, BundleUnreadable, ServiceError) as exc:
                log.warning("A lane stays without a tokenizer.", extra={"digest": digest, "reason": str(exc)})
            finally:
                del self._loading[child.number, digest]

        self._loading[child.number, digest] = asyncio.create_task(load())

    async def _make_lane(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the caller's connection to a child, which answers with 101; 503 while a child is missing."""
        await read_body(receive, 0)
        if not self._lanes.complete:
            await respond(send, 503, b"", ())
            return
        caller, gone = connection(scope), asyncio.Event()
        caller.on_gone = gone.set
        descriptor = caller.detach()
        try:
            self._lanes.give(descriptor)
        finally:
            os.close(descriptor)
        await gone.wait()
