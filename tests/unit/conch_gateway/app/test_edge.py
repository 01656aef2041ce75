"""What a request is told when it cannot be answered, and what becomes of a client that cannot be told anything."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conch_contracts.names import GENERATE_PATH
from conch_gateway.answers.reply import Reply
from conch_gateway.http.auth import ApiKeys
from conch_gateway.inference.watchdog import ClientStalled
from testkit.gateway.fakes import FakeAnswer, Gateway, gateway, streamed

PATH = "/v1/chat/completions"
CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}


def count(served: Gateway, outcome: str, status: str) -> float | None:
    labels = {"endpoint": "chat", "model": "tiny-chat", "status": status, "outcome": outcome}
    return served.registry.get_sample_value("conch_gateway_requests_total", labels)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_the_end_of_the_process_cuts_is_told_so(stream: bool) -> None:
    first = [b'data: {"a":1}\n\n'] if stream else []
    served = gateway({GENERATE_PATH: streamed(*first, asyncio.Event())})
    asking = asyncio.create_task(served.client.post(PATH, {**CHAT, "stream": stream}))
    await served.upstream.asked(GENERATE_PATH).wait()
    await asyncio.sleep(0)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    assert b'"server_shutting_down"' in b"".join(served.client.connections[0].pieces)
    assert count(served, "cut", "200" if stream else "503") == 1
    assert served.upstream.open == 0


async def test_a_client_that_reads_nothing_loses_its_connection() -> None:
    class Unread(FakeAnswer):
        async def read(self) -> bytes:
            raise ClientStalled

    served = gateway({GENERATE_PATH: lambda _: Unread()})
    await served.client.post(PATH, {**CHAT, "stream": True})
    assert served.client.connections[0].aborted
    assert count(served, "stalled", "499") == 1


async def test_a_client_that_has_gone_is_not_told_anything() -> None:
    served = gateway({GENERATE_PATH: streamed(asyncio.Event())})
    asking = asyncio.create_task(served.client.post(PATH, CHAT))
    await served.upstream.asked(GENERATE_PATH).wait()
    served.client.hang_up()
    assert (await asking).status == 0
    assert count(served, "gone", "499") == 1


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        pytest.param(PATH, b"x" * 1000, 400, id="refused"),
        pytest.param(PATH, {**CHAT, "stream": True}, 200, id="streamed"),
        pytest.param("/v1/responses", {"model": "tiny-chat", "input": "hi", "stream": True}, 200, id="a Response"),
    ],
)
@pytest.mark.usefixtures("no_collection")
async def test_nothing_of_a_request_that_is_over_waits_for_a_garbage_collection(
    path: str, body: object, status: int
) -> None:
    others = _replies()  # of tests before this one
    served = gateway({GENERATE_PATH: streamed(b'data: {"a":1}\n\n', b"data: [DONE]\n\n")})
    assert (await served.client.post(path, body)).status == status
    assert [each for each in _replies() if each not in others] == []


def _replies() -> list[Reply]:
    return [each for each in gc.get_objects() if isinstance(each, Reply)]


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key"])
async def test_a_key_that_is_there_twice_is_none(name: bytes, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("ann:sk-a\n")
    keys = ApiKeys(tmp_path / "keys")
    await keys.load()
    value = b"Bearer sk-a" if name == b"authorization" else b"sk-a"
    served = gateway(keys=keys)
    assert (await served.client.get("/v1/models", [(name, value)])).status == 200
    assert (await served.client.get("/v1/models", [(name, value)] * 2)).status == 401
