"""What requests take of a gateway's memory while they wait for a busy engine, or for a process that is away."""

import asyncio
import base64
import tracemalloc
from typing import Any

import orjson
import pytest

from conch_contracts.messages.encoding import PrepareRowsResponse, Row, RowPicture
from conch_contracts.messages.generation import PreparedPicture, PreparedPrompt
from conch_contracts.messages.message import to_json
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.names import ENCODE_PATH, GENERATE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH
from conch_contracts.records import Engine, ModelKind, PictureProfile, Route
from testkit.gateway.fakes import ENGINE, Gateway, answered, gateway, route, snapshot, streamed
from testkit.waiting import eventually

SIDE = 336
"""Of the pictures, as the model sees them: 338,688 bytes, and a third more as base64."""
FILE = base64.b64encode(bytes(range(256)) * 200).decode()
PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{FILE}"}}
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": FILE}}
BODY = orjson.dumps({"model": "tiny-chat", "messages": [{"role": "user", "content": [PART]}]})
PIXELS = bytes(SIDE * SIDE * 3)
SHOWN = PreparedPicture(data=PIXELS, height=SIDE, width=SIDE, start=0, length=1, digest="d")
PROMPT = to_json(PrepareResponse(prompts=(PreparedPrompt(ids=(1,), text="x", pictures=(SHOWN,)),)))
SEEN = RowPicture(pixels=PIXELS, height=SIDE, width=SIDE, scale=(1, 1, 1), shift=(0, 0, 0), length=1)
ROWS = to_json(PrepareRowsResponse(rows=(Row(ids=(), picture=SEEN),)))
WAITING = 100
CHAT, EMBEDDINGS, MESSAGES = "/v1/chat/completions", "/v1/embeddings", "/v1/messages"


class Busy:
    """A gateway whose only engine has no slot free, and the requests that wait for one."""

    def __init__(self, known: Route, **changes: Any) -> None:
        never = streamed(asyncio.Event())
        scripts = {PREPARE_PATH: answered(PROMPT), PREPARE_ROWS_PATH: answered(ROWS)}
        asked = snapshot(known, engines=(Engine(grpc=ENGINE, slots=1),))
        both = dict.fromkeys((GENERATE_PATH, ENCODE_PATH), never)
        self.running: Gateway = gateway({**scripts, **both}, known=asked, **changes)
        self._tasks: list[asyncio.Task[Any]] = []
        self._model = known.model_id

    async def __aenter__(self) -> "Busy":
        return self

    async def wait_for_engine(self, path: str) -> None:
        """Send one more request; the first one gets the engine, and all others wait."""
        self._tasks.append(asyncio.create_task(self.running.client.post(path, BODY)))
        await eventually(self._all_have_come, "the request in its place")
        self.running.upstream.posts.clear()  # what the fake has kept is no memory of the gateway

    def _all_have_come(self) -> bool:
        queued = self.running.admission.waiting()[self._model]
        return self.running.upstream.open > 0 and queued == len(self._tasks) - 1

    async def __aexit__(self, *_: object) -> None:
        self.running.client.hang_up()
        await asyncio.gather(*self._tasks)


@pytest.mark.parametrize(("path", "prepared"), [(CHAT, PROMPT), (EMBEDDINGS, ROWS)])
async def test_a_hundred_requests_that_wait_keep_each_picture_once(path: str, prepared: bytes) -> None:
    kind = ModelKind.EMBEDDING if path == EMBEDDINGS else ModelKind.LLM
    async with Busy(route(kind=kind, pictures=PictureProfile())) as busy:
        await busy.wait_for_engine(path)
        tracemalloc.start()
        try:
            for _ in range(WAITING):
                await busy.wait_for_engine(path)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert WAITING * len(prepared) < taken < WAITING * 1.1 * (len(prepared) + len(BODY))


@pytest.mark.parametrize(("path", "shown"), [(CHAT, PART), (MESSAGES, BLOCK)])
async def test_what_waits_for_a_busy_engine_has_a_bound_in_bytes(path: str, shown: object) -> None:
    body = {"model": "tiny-chat", "max_tokens": 5, "messages": [{"role": "user", "content": [shown]}]}
    async with Busy(route(pictures=PictureProfile()), queued_bytes=3 * len(PROMPT)) as busy:
        for _ in range(3):
            await busy.wait_for_engine(CHAT)
        refused = await busy.running.client.post(path, body)
        assert refused.status == 429
        assert 1 <= int(refused.headers[b"retry-after"]) <= 4
        assert refused.error["type"] == "rate_limit_error"
        assert refused.error["message"] == "Too much waits here for engines that are busy."


@pytest.mark.parametrize(("away", "awaited"), [("tokenizers", "a tokenizer"), ("workers", "a worker")])
async def test_what_waits_for_a_process_that_is_away_has_a_bound_in_bytes(away: str, awaited: str) -> None:
    lacking: dict[str, Any] = {away: ()}
    known = snapshot(route(pictures=PictureProfile()), **lacking)
    body = {"model": "tiny-chat", "max_tokens": 5, "messages": [{"role": "user", "content": [BLOCK]}]}
    scripts = {PREPARE_PATH: answered(PROMPT)}
    served = gateway(scripts, known=known, once_there=lambda _: True, queued_bytes=len(PROMPT) + 2 * len(BODY))
    room = served.admission.queued
    waiting = asyncio.create_task(served.client.post(CHAT, BODY))
    await eventually(lambda: room.size > 0, "the first request in the line")
    assert len(FILE) < room.size <= room.limit
    room.limit = room.size
    refused = await served.client.post(MESSAGES, body)
    assert (refused.status, refused.error["type"]) == (429, "rate_limit_error")
    assert refused.error["message"] == f"Too much waits here for {awaited}."
    assert int(refused.headers[b"retry-after"]) >= 2
    served.client.hang_up()
    await waiting
    assert room.size == 0
