"""How long a server of models may take over HTTP, and what its refusals say; for the rest see `integration/`."""

import asyncio

import pytest

from conch_contracts.names import EngineAddress
from conch_kit.triton import http_client as module
from conch_kit.triton.errors import EngineError, EngineTimeout, MalformedResponse
from conch_kit.triton.http_client import TritonHttp
from testkit.servers.scripted_http import Call, ScriptedHttp

MANY = 101
"""One more than aiohttp has by itself."""


async def silent(call: Call) -> None:
    await call.closed()


async def test_a_request_for_numbers_has_its_own_time() -> None:
    async with ScriptedHttp(silent) as server, TritonHttp() as triton:
        with pytest.raises(EngineTimeout, match=r"within 0\.05 s"):
            await triton.infer(EngineAddress(server.url), "m", [], "out", timeout_s=0.05)


async def test_what_a_server_says_of_itself_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONFIG_TIMEOUT_S", 0.05)
    async with ScriptedHttp(silent) as server, TritonHttp() as triton:
        address = EngineAddress(server.url)
        with pytest.raises(EngineTimeout):
            await triton.model_config(address, "m")
        with pytest.raises(EngineTimeout):
            await triton.check_protocol(address)


@pytest.mark.parametrize(
    ("body", "said"),
    [(b'{"error": "no such model"}', "no such model"), (b"<html>", "HTTP status 502"), (b"{}", "HTTP status 502")],
)
async def test_a_refusal_is_told_in_the_servers_words_or_by_its_number(body: bytes, said: str) -> None:
    async def refusing(call: Call) -> None:
        await call.answer(body, status=502)

    async with ScriptedHttp(refusing) as server, TritonHttp() as triton:
        with pytest.raises(EngineError, match=said) as refused:
            await triton.model_config(EngineAddress(server.url), "m")
    assert not isinstance(refused.value, MalformedResponse)


async def test_a_config_that_is_none_is_malformed() -> None:
    async def other(call: Call) -> None:
        await call.answer(b'{"max_batch_size": "many"}')

    async with ScriptedHttp(other) as server, TritonHttp() as triton:
        with pytest.raises(MalformedResponse, match="config of m cannot be read"):
            await triton.model_config(EngineAddress(server.url), "m")


async def test_any_number_of_requests_goes_out_at_once() -> None:
    all_there = asyncio.Event()

    async def waiting(call: Call) -> None:
        if len(server.calls) == MANY:
            all_there.set()
        await all_there.wait()
        await call.answer(b"{}")

    async with ScriptedHttp(waiting) as server, TritonHttp() as triton, asyncio.timeout(60):
        address = EngineAddress(server.url)
        await asyncio.gather(*(triton.model_config(address, "m") for _ in range(MANY)))
