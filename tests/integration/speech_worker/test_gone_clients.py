"""Clients that go while a file comes, is decoded or is heard: gateway, decoder and engine are free within a second."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from testkit.gateway.speech import TRANSCRIPTIONS
from testkit.http.forms import BOUNDARY, form
from testkit.models.container_files import container_of
from testkit.models.tone_speech import file_of, silence, spoken
from testkit.waiting import eventually

from .conftest import Way

pytestmark = pytest.mark.asyncio(loop_scope="module")

AT_ONCE_S, TRIES = 1.0, 5
"""A busy machine stands still now and then: the fastest try counts."""
LONG_S = 5000
"""Of silence, which no engine hears: its decoding takes seconds."""


async def ask(way: Way, body: bytes, sent: int | None = None) -> asyncio.StreamWriter:
    """Send a request, or its first bytes."""
    _, writer = await asyncio.open_connection("127.0.0.1", way.gateway.port)
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    head += f"content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    writer.write(head.encode() + body[:sent])
    return writer


async def check_freed(
    way: Way,
    request: Callable[[int], tuple[bytes, int | None]],
    begun: Callable[[int], object],
    busy: Callable[[int], object],
) -> None:
    """Check that what a request keeps busy is free soon after its client has gone."""
    took = []
    for number in range(TRIES):
        writer = await ask(way, *request(number))
        await eventually(partial(begun, number), "the request to be at work")
        writer.transport.abort()
        took.append(await eventually(lambda number=number: not busy(number), "all to be free"))
        if took[-1] < AT_ONCE_S:
            return
    pytest.fail(f"Nothing was free within {AT_ONCE_S} s: {took}")


async def test_whoever_goes_while_a_file_comes_leaves_nothing(way: Way) -> None:
    body = form(content=file_of(spoken([1] * 4000)))

    def held(_: int) -> list[str]:
        return way.files()

    await check_freed(way, lambda _: (body, len(body) // 2), held, held)


async def test_whoever_goes_while_a_file_is_decoded_frees_the_decoder(way: Way) -> None:
    body = form(("model", "plain"), content=container_of(silence(1), "aac", SAMPLE_RATE) * LONG_S)

    def busy(_: int) -> bool:
        return bool(way.worker.decoding_children() or way.files())

    await check_freed(way, lambda _: (body, None), lambda _: way.worker.decoding_children(), busy)


async def test_whoever_goes_while_a_file_is_heard_frees_the_engine_and_the_decoder(way: Way) -> None:
    file = file_of(spoken([1] * 1500))

    def request(number: int) -> tuple[bytes, None]:
        return form(("model", "slow"), ("request_id", f"gone-{number}"), content=file), None

    def begun(number: int) -> list[dict[str, Any]]:
        return way.stage.seen("heard", f"gone-{number}")

    def busy(number: int) -> bool:
        return not way.stage.idle(f"gone-{number}") or bool(way.worker.decoding_children() or way.files())

    await check_freed(way, request, begun, busy)
    assert not [note for number in range(TRIES) for note in way.stage.seen("answered", f"gone-{number}")]
    async with way.stage.session.get(f"{way.worker.admin_url}/metrics") as answer:
        assert 'conch_speech_worker_requests_total{outcome="client_gone"}' in await answer.text()
    assert "The application failed." not in way.worker.log.read_text()
