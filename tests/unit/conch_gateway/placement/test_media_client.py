import asyncio
import json

import pytest

from conch_contracts.names import FETCH_PICTURE_PATH
from conch_contracts.records import PictureProfile
from conch_gateway.placement.media_client import MediaClient
from conch_gateway.upstream.port import ConnectFailed, Post
from conch_kit.errors import InvalidRequest, ServiceError, Unavailable, UpstreamTimeout
from conch_kit.logs import request_id_var
from testkit.gateway.fakes import FakeAnswer, FakeUpstream, lost, refused

URL = "http://media:8080"
PARAM = "messages.0.content.1.image_url"
PROFILE = PictureProfile(allowed_domains=("a.example",), max_bytes=100)


class Media:
    """A media process that answers with one thing after the other."""

    def __init__(self, *answers: FakeAnswer | Exception, url: str = URL, timeout_s: float = 60.0) -> None:
        self._answers = list(answers)
        self.upstream = FakeUpstream({FETCH_PICTURE_PATH: self._answer})
        self.client = MediaClient(self.upstream, url, "secret", timeout_s=timeout_s)

    def _answer(self, _: Post) -> FakeAnswer | Exception:
        return self._answers.pop(0)

    async def fetch(self, profile: PictureProfile = PROFILE, url: str = "https://a.example/b.png") -> bytes:
        return await self.client.fetch(url, profile, PARAM)


async def test_the_answer_is_the_file() -> None:
    media = Media(FakeAnswer(pieces=(b"pix", b"els")))
    token = request_id_var.set("req-1")
    try:
        assert await media.fetch() == b"pixels"
    finally:
        request_id_var.reset(token)
    (post,) = media.upstream.posts
    assert (post.url, post.path) == (URL, FETCH_PICTURE_PATH)
    assert dict(post.headers) == {b"x-request-id": b"req-1", b"x-conch-internal-token": b"secret"}
    assert json.loads(post.body) == {
        "url": "https://a.example/b.png",
        "allowed_domains": ["a.example"],
        "max_bytes": 100,
        "param": PARAM,
        "timeout_s": 60.0,
    }


@pytest.mark.parametrize("status", [400, 422, 502, 503, 504])
async def test_an_error_of_the_media_process_is_passed_on(status: int) -> None:
    with pytest.raises(ServiceError) as failed:
        await Media(refused(status, "why", param=PARAM, code="c")).fetch()
    assert (failed.value.status, failed.value.message, failed.value.param) == (status, "why", PARAM)


async def test_without_a_process_nothing_is_asked() -> None:
    media = Media(url="")
    with pytest.raises(InvalidRequest, match="nobody fetches pictures here") as refusal:
        await media.fetch()
    assert (refusal.value.param, media.upstream.posts) == (PARAM, [])


async def test_half_a_character_in_a_url_is_the_clients_fault() -> None:
    with pytest.raises(InvalidRequest, match="half of a character"):
        await Media().fetch(url="https://a.example/\ud800")


async def test_another_connection_is_tried_once() -> None:
    media = Media(ConnectFailed("gone"), FakeAnswer(pieces=(b"pixels",)))
    assert await media.fetch() == b"pixels"


@pytest.mark.parametrize("failures", [(ConnectFailed("gone"), ConnectFailed("gone")), (lost(started=True),)])
async def test_a_process_that_is_away_or_breaks_is_a_503(failures: tuple[Exception, ...]) -> None:
    with pytest.raises(Unavailable) as failed:
        await Media(*failures).fetch()
    assert failed.value.retry_after_s is not None


async def test_a_process_that_hangs_is_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_gateway.placement.media_client._GRACE_S", 0.01)
    media = Media(FakeAnswer(pieces=(asyncio.Event(),)), timeout_s=0.01)
    with pytest.raises(UpstreamTimeout) as failed:
        await media.fetch()
    assert (failed.value.param, media.upstream.open) == (PARAM, 0)


async def test_a_file_that_is_longer_than_it_may_be_is_not_taken() -> None:
    with pytest.raises(Unavailable):
        await Media(FakeAnswer(pieces=(b"a" * 70_000,))).fetch()


async def test_giving_up_ends_the_fetch() -> None:
    media = Media(FakeAnswer(pieces=(asyncio.Event(),)))
    fetching = asyncio.create_task(media.fetch())
    await media.upstream.asked(FETCH_PICTURE_PATH).wait()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert media.upstream.open == 0
