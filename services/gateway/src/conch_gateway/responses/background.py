"""Answers that are made while their clients do not wait: `background: true`.

The client gets the answer as `queued` at once, and asks for it again; the request's own task goes on with the work, so
a gateway that drains waits for it as for any other. What is kept stays `queued` until the end, and beside it stands a
lease that says how far the work is: the gateway renews it, and an answer without one has lost its gateway. Who wants to
stop the work leaves a word that this gateway reads.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import orjson

from conch_contracts.names import SERVER_SHUTTING_DOWN
from conch_gateway.answers.reply import Reply
from conch_gateway.generation.job import GenerationJob
from conch_gateway.http.exchange import Exchange, Outcome
from conch_gateway.inference.intake import off_loop
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.response_saver import with_store
from conch_gateway.responses.store import MAX_RECORD_BYTES, ResponseNote, ResponseStore, StopOrder
from conch_gateway.responses.stored_answer import LEASE_S
from conch_kit.errors import InternalError, InvalidRequest, RateLimited, ServiceError, Unavailable
from conch_kit.json_bytes import json_bytes
from conch_kit.metric_families import CounterValue

_BEAT_S = 0.5
"""How soon a word to stop is heard."""
_KEEP_FOR_S = 60.0
"""For so long an ended answer is offered to a store that does not answer."""
_LAST_WORDS_S = 2.0
"""How long work that is cancelled may take to end."""
PARAM = "background"


class BackgroundRun:
    """One answer in the background: hears how far its request is, gets its answer, and keeps it."""

    def __init__(
        self,
        store: ResponseStore,
        owner: str,
        response_id: str,
        items: Sequence[Item],
        reply: Reply,
        lost: CounterValue,
    ) -> None:
        self._store = store
        self._owner = owner
        self._id = response_id
        self._items = items
        self._reply = reply
        self._lost = lost
        self._head: dict[str, object] = {}
        self._state = ""
        """What the lease says; empty before the client has its answer."""
        self._leased = ("", 0.0)
        """What the lease said last, and when."""
        self._answer: bytes | None = None

    async def accepted(self, job: GenerationJob) -> None:
        """Keep the answer as queued and give it to the client; raises Unavailable when it cannot be kept."""
        self._head = {
            "id": self._id,
            "object": "response",
            "created_at": job.created,
            "model": job.resolved.name,
            **job.response_fields(),
            "usage": _usage(job.prompt_tokens),
        }
        queued = self._body("queued")
        record = await self._record(queued)
        if len(record) > MAX_RECORD_BYTES:
            raise InvalidRequest("The conversation is too long to be kept, which 'background' needs.", param=PARAM)
        await self._lease("queued")
        if not await self._store.put(self._owner, self._id, record):
            raise Unavailable("The store of responses does not answer.", code="store_unavailable", retry_after_s=2)
        self._state = "queued"
        await self._reply.whole(200, queued)

    def asked(self) -> None:
        """Hear that a worker is asked now."""
        self._state = "in_progress"

    async def save(self, answer: bytes) -> bytes:
        """Take the complete answer."""
        self._answer = with_store(answer, saved=True)
        return self._answer

    async def finish(self, work: Coroutine[Any, Any, None], exchange: Exchange) -> None:
        """Do the work and keep what comes of it; raises what the work raises before it was accepted."""
        task = asyncio.create_task(work)
        try:
            stopped = await self._watched(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task], timeout=_LAST_WORDS_S)
            if self._state:
                down = Unavailable("The server is shutting down.", code=SERVER_SHUTTING_DOWN)
                if not await self._store.put(self._owner, self._id, await self._record(self._failed(down))):
                    self._lost.inc()
            raise
        if not self._state:
            return task.result()
        exchange.status = 200
        if stopped and task.cancelled():
            exchange.outcome = Outcome.GONE
            if stopped == StopOrder.CANCEL:
                await self._keep(self._body("cancelled"))
            return None
        error = task.exception()
        if isinstance(error, ServiceError):
            exchange.outcome = Outcome.FAILED
            self._answer = self._failed(error)
        await self._keep(
            self._answer or self._failed(InternalError("The server had an error while processing the request."))
        )
        if error is not None and not isinstance(error, ServiceError):
            raise error
        return None

    async def _watched(self, task: asyncio.Task[None]) -> str:
        """Wait for the end of the work, or for a word to stop it, which is returned; renew the lease meanwhile."""
        while not task.done():
            await asyncio.wait([task], timeout=_BEAT_S)
            if not self._state or task.done():
                continue
            with suppress(Unavailable):  # the lease holds for a while without the store
                if stop := await self._store.note(self._owner, self._id, ResponseNote.STOP):
                    task.cancel()
                    await asyncio.wait([task])
                    return stop
                await self._lease(self._state)
        return ""

    async def _lease(self, state: str) -> None:
        said, when = self._leased
        now = time.monotonic()
        if said != state or now - when > LEASE_S / 4:
            await self._store.leave_note(self._owner, self._id, ResponseNote.LEASE, state, LEASE_S)
            self._leased = state, now

    async def _keep(self, answer: bytes) -> None:
        """Keep the answer that has ended, as soon as the store takes it."""
        record = await self._record(answer)
        if len(record) > MAX_RECORD_BYTES:
            record = await self._record(self._failed(InternalError("The answer is too large to be kept.")))
        last = time.monotonic() + _KEEP_FOR_S
        while not await self._store.put(self._owner, self._id, record):
            if time.monotonic() > last:
                self._lost.inc()
                return
            await asyncio.sleep(_BEAT_S)
        with suppress(Unavailable):
            if await self._store.note(self._owner, self._id, ResponseNote.STOP) == StopOrder.DELETE:
                await self._store.delete(self._owner, self._id)

    async def _record(self, answer: bytes) -> bytes:
        record = {"response": orjson.Fragment(answer), "input": self._items}
        return await off_loop(len(answer), orjson.dumps, record)

    def _failed(self, error: ServiceError) -> bytes:
        code = "rate_limit_exceeded" if isinstance(error, RateLimited) else "server_error"
        return self._body("failed", {"code": code, "message": error.message})

    def _body(self, status: str, error: dict[str, str] | None = None) -> bytes:
        """Return the answer in a state without output."""
        ends = {"completed_at": None, "error": error, "incomplete_details": None}
        return json_bytes({**self._head, "status": status, **ends, "output": []})


def _usage(prompt_tokens: int) -> dict[str, object]:
    """Return the usage of an answer of which nothing is there yet."""
    return {
        "input_tokens": prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt_tokens,
    }
