"""The gateway's client, the media process's application and a server of pictures, on real connections."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from conch_contracts.names import FETCH_PICTURE_PATH
from conch_contracts.records import PictureProfile
from conch_gateway.placement.media_client import MediaClient
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_kit.errors import ServiceError
from conch_kit.http.internal_app import internal_app
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.http_server.bound_socket import bound
from conch_kit.http_server.server import HttpServer
from conch_media.handler import FetchHandler
from conch_media.metrics import MediaMetrics
from testkit.builders.pictures import PARAM, PNG, fetch_request, fetcher_of
from testkit.certificates import make_authority
from testkit.http.hostile_urls import GOOD, PUBLIC
from testkit.servers.scripted_http import Call, Script, ScriptedHttp

TOKEN = "secret"
PROFILE = PictureProfile(allowed_domains=(GOOD,), max_bytes=4_000_000)


class Stack:
    """A client, the application and a server of pictures."""

    def __init__(self, client: MediaClient, server: ScriptedHttp) -> None:
        self._client = client
        self._server = server

    async def fetch(self, host: str = GOOD) -> bytes:
        return await self._client.fetch(f"http://{host}:{self._server.port}/a.png", PROFILE, PARAM)


@asynccontextmanager
async def stack(script: Script, *, token: str = TOKEN, max_fetches: int = 2) -> AsyncIterator[Stack]:
    async with ScriptedHttp(script, PUBLIC) as server, ConnectionPool(connect_timeout_s=30) as upstream:
        fetcher = fetcher_of(server.port, max_bytes=PROFILE.max_bytes)
        metrics = MediaMetrics.register(CollectorRegistry())
        handler = FetchHandler(fetcher, InFlightRequests(), metrics, max_fetches)
        app = internal_app({FETCH_PICTURE_PATH: handler}, SecretStr(TOKEN))
        with bound("127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with HttpServer(app).serving(listener):
                yield Stack(MediaClient(upstream, url, token, timeout_s=30), server)


async def test_a_picture_goes_all_the_way() -> None:
    file = PNG + bytes(range(256)) * 12_000

    async def script(call: Call) -> None:
        await call.answer(file)

    async with stack(script) as media:
        assert await media.fetch() == file
        assert await media.fetch() == file  # on the connection that was kept


def test_it_works_on_the_event_loop_of_a_process(tmp_path: Path) -> None:
    authority = make_authority(tmp_path, GOOD)
    trusted = ssl.create_default_context(cadata=authority.pem)

    async def script(call: Call) -> None:
        await call.answer(PNG)

    async def fetched() -> bytes:
        async with ScriptedHttp(script, PUBLIC, authority.server) as server:
            request = fetch_request(f"https://{GOOD}:{server.port}/a.png", timeout_s=30.0)
            return (await fetcher_of(server.port, trusted=trusted).fetch(request)).file

    assert uvloop.run(fetched()) == PNG


async def test_a_refusal_reaches_the_client_with_its_words() -> None:
    async def script(call: Call) -> None:
        await call.answer(b"", status=404)

    async with stack(script) as media:
        with pytest.raises(ServiceError) as missing:
            await media.fetch()
        with pytest.raises(ServiceError) as refused:
            await media.fetch("evil.example")
    assert (missing.value.status, missing.value.param) == (422, PARAM)
    assert missing.value.message == f"The picture at '{PARAM}' cannot be had: its server answered with status 404."
    assert (refused.value.status, refused.value.code) == (400, "invalid_value")


async def test_a_gateway_that_gives_up_ends_the_fetch_and_makes_room() -> None:
    reached, hung_up = asyncio.Event(), asyncio.Event()

    async def script(call: Call) -> None:
        if reached.is_set():
            await call.answer(PNG)
            return
        reached.set()
        await call.closed()
        hung_up.set()

    async with stack(script, max_fetches=1) as media:
        first = asyncio.create_task(media.fetch())
        await asyncio.wait_for(reached.wait(), 30)
        with pytest.raises(ServiceError) as full:
            await media.fetch()
        assert (full.value.status, full.value.retry_after_s) == (503, 1.0)
        first.cancel()
        await asyncio.wait_for(hung_up.wait(), 30)
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await media.fetch() == PNG


async def test_whoever_does_not_know_the_token_gets_nothing() -> None:
    async def script(call: Call) -> None:
        await call.answer(PNG)

    async with stack(script, token="wrong") as media:
        with pytest.raises(ServiceError) as refused:
            await media.fetch()
    assert refused.value.status == 502
