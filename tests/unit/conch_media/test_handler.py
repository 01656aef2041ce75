"""The endpoint as a whole, in this process: what it answers, counts and gives up."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.messages.message import to_json
from conch_contracts.messages.pictures import FetchPictureRequest
from conch_kit.errors import InvalidRequest, Unavailable, UpstreamTimeout
from conch_kit.http.asgi import ClientGone
from conch_kit.http.request_scope import InFlightRequests
from conch_media.handler import FetchHandler
from conch_media.metrics import MediaMetrics
from conch_media.picture_fetcher import FetchedPicture
from testkit.builders.pictures import PNG, fetch_request
from testkit.engines.scripted_triton import Caller
from testkit.waiting import eventually


class PlayedFetcher:
    """Gives a picture once it may, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.may_end = asyncio.Event()
        self.open = 0
        self._failure = failure

    async def fetch(self, request: FetchPictureRequest) -> FetchedPicture:
        self.open += 1
        try:
            await self.may_end.wait()
        finally:
            self.open -= 1
        if self._failure is not None:
            raise self._failure
        return FetchedPicture(PNG, "image/png")


class Endpoint:
    """The handler with its metrics."""

    def __init__(self, failure: Exception | None = None, *, max_fetches: int = 2) -> None:
        self.fetcher = PlayedFetcher(failure)
        self.registry = CollectorRegistry()
        metrics = MediaMetrics.register(self.registry)
        self._handler = FetchHandler(self.fetcher, InFlightRequests(), metrics, max_fetches)  # type: ignore[arg-type]

    async def ask(self, caller: Caller | None = None) -> Caller:
        caller = caller or Caller(to_json(fetch_request("https://a.example/b.png")))
        await self._handler(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]
        return caller

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"conch_media_{name}", labels)


async def test_the_answer_is_the_file_with_its_media_type() -> None:
    endpoint = Endpoint()
    endpoint.fetcher.may_end.set()
    caller = await endpoint.ask()
    assert (caller.status, caller.body) == (200, PNG)
    assert caller.headers["content-type"] == "image/png"
    assert endpoint.count("requests_total", outcome="ok") == 1
    assert endpoint.count("bytes_total") == len(PNG)
    assert endpoint.count("fetch_duration_seconds_count") == 1


async def test_an_error_is_raised_as_it_is_and_counted() -> None:
    endpoint = Endpoint(UpstreamTimeout("late"))
    endpoint.fetcher.may_end.set()
    with pytest.raises(UpstreamTimeout, match="late"):
        await endpoint.ask()
    assert endpoint.count("requests_total", outcome="504") == 1


async def test_one_fetch_too_many_is_refused_until_there_is_room() -> None:
    endpoint = Endpoint(max_fetches=2)
    two = [asyncio.create_task(endpoint.ask()) for _ in range(2)]
    await eventually(lambda: endpoint.fetcher.open == 2, "two fetches")
    with pytest.raises(Unavailable) as refused:
        await endpoint.ask()
    assert (refused.value.status, refused.value.retry_after_s) == (503, 1.0)
    endpoint.fetcher.may_end.set()
    await asyncio.gather(*two)
    assert (await endpoint.ask()).status == 200


async def test_a_caller_that_hangs_up_ends_the_fetch() -> None:
    endpoint = Endpoint()
    caller = Caller(to_json(fetch_request("https://a.example/b.png")))
    asking = asyncio.create_task(endpoint.ask(caller))
    await eventually(lambda: endpoint.fetcher.open == 1, "the fetch")
    caller.hang_up()
    with pytest.raises(ClientGone):
        await asking
    assert endpoint.fetcher.open == 0
    assert endpoint.count("requests_total", outcome="client_gone") == 1


@pytest.mark.parametrize("body", [b"", b"{}", b'{"url": 1, "allowed_domains": [], "param": "p"}'])
async def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await Endpoint().ask(Caller(body))
