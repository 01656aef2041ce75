"""What a client reads for each thing that a server may do; on real connections to a server that plays a script."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from conch_kit.errors import ServiceError
from testkit.builders.pictures import PARAM, PICTURES, PNG, PlayedNames, fetch_request, fetcher_of
from testkit.certificates import make_authority
from testkit.http.hostile_urls import GOOD, PUBLIC
from testkit.servers.scripted_http import Call, Script, ScriptedHttp

MOST = 1000


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedHttp]:
    async with ScriptedHttp(script, PUBLIC, tls) as server:
        yield server


def raw(data: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.raw(data)
        call.finish()

    return script


def answer(body: bytes, status: int = 200, **headers: str) -> Script:
    async def script(call: Call) -> None:
        await call.answer(
            body, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )

    return script


async def endless(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n\r\n" + PNG)
    with suppress(ConnectionError):
        while True:
            await call.raw(b"a" * 4096)


async def silent(call: Call) -> None:
    await call.closed()


async def stops_in_the_middle(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + PNG)
    await call.closed()


async def heads_without_end(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    with suppress(ConnectionError):
        while True:
            await call.raw(b"x-a: " + b"a" * 1000 + b"\r\n")


async def asked(script: Script, **limits: float) -> ServiceError:
    async with serving(script) as server:
        fetcher = fetcher_of(server.port, max_bytes=MOST, **limits)  # type: ignore[arg-type]
        with pytest.raises(ServiceError) as failed:
            await fetcher.fetch(fetch_request(f"http://{GOOD}:{server.port}/a.png", timeout_s=30.0))
    assert failed.value.param == PARAM
    assert PARAM in failed.value.message
    return failed.value


@pytest.mark.parametrize(("media_type", "file"), PICTURES.items())
async def test_a_picture_comes_as_it_is_whatever_its_server_calls_it(media_type: str, file: bytes) -> None:
    async with serving(answer(file, content_type="text/html")) as server:
        found = await fetcher_of(server.port).fetch(fetch_request(f"http://{GOOD}:{server.port}/a.png?b=c"))
        (call,) = server.calls
    assert (found.file, found.media_type) == (file, media_type)
    assert call.path == "/a.png?b=c"
    assert call.headers["host"] == f"{GOOD}:{server.port}"
    assert call.headers["accept-encoding"] == "identity"
    assert {"cookie", "authorization", "referer", "x-conch-internal-token"} & call.headers.keys() == set()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        pytest.param(answer(b"<svg/>", content_type="image/png"), 400, id="no picture"),
        pytest.param(answer(b""), 400, id="empty"),
        pytest.param(answer(b"", 404), 422, id="404"),
        pytest.param(answer(b"", 401), 422, id="401"),
        pytest.param(answer(b"", 429), 422, id="429"),
        pytest.param(answer(b"", 500), 502, id="500"),
        pytest.param(answer(b"", 503), 502, id="503"),
        pytest.param(answer(b"", 204), 502, id="204"),
        pytest.param(answer(b"", 304), 502, id="304"),
        pytest.param(answer(b"", 302), 502, id="a redirect to nowhere"),
        pytest.param(answer(PNG + b"a" * MOST), 422, id="too large"),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"), 422, id="says that it is too large"
        ),
        pytest.param(endless, 422, id="endless"),
        pytest.param(answer(zlib.compress(PNG), content_encoding="gzip"), 422, id="packed"),
        pytest.param(answer(PNG, content_encoding="br"), 422, id="says that it is packed"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + PNG), 502, id="shorter than it says"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n" + PNG), 502, id="longer than it says"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n" + PNG), 502, id="cut"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nabcde"), 502, id="no chunks"),
        pytest.param(raw(b"SSH-2.0-OpenSSH_9.6\r\n"), 502, id="no HTTP"),
        pytest.param(raw(b""), 502, id="nothing"),
        pytest.param(heads_without_end, 502, id="a head without end"),
    ],
)
async def test_each_failure_of_a_server_has_its_status(script: Script, status: int) -> None:
    assert (await asked(script)).status == status


@pytest.mark.parametrize("script", [silent, stops_in_the_middle], ids=["silent", "stops in the middle"])
async def test_a_server_that_takes_too_long_is_a_time_out(script: Script) -> None:
    assert (await asked(script, timeout_s=0.3)).status == 504


async def test_the_model_may_take_less_than_the_process() -> None:
    async with serving(answer(PNG)) as server:
        with pytest.raises(ServiceError) as failed:
            await fetcher_of(server.port).fetch(fetch_request(f"http://{GOOD}:{server.port}/", max_bytes=len(PNG) - 1))
    assert failed.value.status == 422
    assert f"the limit of {len(PNG) - 1} bytes" in failed.value.message


async def test_a_server_that_begins_no_tls_is_a_time_out() -> None:
    async with serving(silent) as server:
        fetcher = fetcher_of(server.port, connect_timeout_s=0.2)
        with pytest.raises(ServiceError) as failed:
            await fetcher.fetch(fetch_request(f"https://{GOOD}:{server.port}/", timeout_s=30.0))
    assert failed.value.status == 504


async def test_the_log_holds_nothing_of_a_url_but_its_host(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with serving(raw(b"stolen words\r\n\r\n")) as server:
        with pytest.raises(ServiceError):
            await fetcher_of(server.port).fetch(fetch_request(f"http://{GOOD}:{server.port}/path?signature=secret"))
    (line,) = [record.__dict__ for record in caplog.records if record.name.startswith("conch_media")]
    assert (line["host"], line["reason"]) == (GOOD, "ClientResponseError")
    assert not any(word in str(line) for word in ("signature", "secret", "stolen"))


async def test_a_name_that_nobody_answers_for_is_a_time_out() -> None:
    class Silent(PlayedNames):
        async def __call__(self, host: str) -> None:  # type: ignore[override]
            await asyncio.Event().wait()

    with pytest.raises(ServiceError) as failed:
        await fetcher_of(80, Silent({}), timeout_s=0.2).fetch(fetch_request(f"http://{GOOD}/"))
    assert failed.value.status == 504


@pytest.mark.parametrize(
    ("fault", "status"),
    [(OSError("no such name"), 400), (UnicodeError("label too long"), 400), (TimeoutError(), 504)],
    ids=["no such name", "no name at all", "no answer in time"],
)
async def test_a_name_that_cannot_be_looked_up_is_refused_and_one_without_an_answer_a_time_out(
    fault: Exception, status: int
) -> None:
    class Failing(PlayedNames):
        async def __call__(self, host: str) -> None:  # type: ignore[override]
            raise fault

    with pytest.raises(ServiceError) as failed:
        await fetcher_of(80, Failing({})).fetch(fetch_request(f"http://{GOOD}/"))
    assert failed.value.status == status


async def test_a_server_that_is_not_there_is_a_failure() -> None:
    async with serving(answer(PNG)) as server:
        pass
    with pytest.raises(ServiceError) as failed:
        await fetcher_of(server.port).fetch(fetch_request(f"http://{GOOD}:{server.port}/"))
    assert failed.value.status == 502


@pytest.mark.parametrize("redirects", [1, 2, 3, 4])
async def test_three_redirects_are_followed(redirects: int) -> None:
    async def script(call: Call) -> None:
        number = int(call.path.strip("/"))
        if number:
            await call.answer(b"", status=307, headers={"location": f"/{number - 1}", "set-cookie": "a=b"})
        else:
            await call.answer(PNG)

    async with serving(script) as server:
        fetching = fetcher_of(server.port).fetch(fetch_request(f"http://{GOOD}:{server.port}/{redirects}"))
        if redirects > 3:
            with pytest.raises(ServiceError, match="no picture may be fetched from this URL"):
                await fetching
        else:
            assert (await fetching).file == PNG
        assert len(server.calls) == min(redirects, 3) + 1
        assert all("cookie" not in call.headers for call in server.calls)


async def test_a_fetch_that_is_given_up_hangs_up() -> None:
    reached, hung_up = asyncio.Event(), asyncio.Event()

    async def script(call: Call) -> None:
        reached.set()
        await call.closed()
        hung_up.set()

    async with serving(script) as server:
        fetching = asyncio.create_task(fetcher_of(server.port).fetch(fetch_request(f"http://{GOOD}:{server.port}/")))
        await asyncio.wait_for(reached.wait(), 30)
        fetching.cancel()
        await asyncio.wait_for(hung_up.wait(), 30)
        with pytest.raises(asyncio.CancelledError):
            await fetching


@pytest.mark.parametrize(
    ("name", "trusts", "status"),
    [(GOOD, True, None), ("other.example", True, 502), (GOOD, False, 502)],
    ids=["the right name", "another name", "an unknown authority"],
)
async def test_tls_is_verified_for_the_name_and_not_for_the_address(
    tmp_path: Path, name: str, trusts: bool, status: int | None
) -> None:
    authority = make_authority(tmp_path, name)
    trusted = ssl.create_default_context(cadata=authority.pem) if trusts else ssl.create_default_context()
    async with serving(answer(PNG), authority.server) as server:
        fetcher = fetcher_of(server.port, trusted=trusted)
        fetching = fetcher.fetch(fetch_request(f"https://{GOOD}:{server.port}/"))
        if status is None:
            assert (await fetching).file == PNG
            return
        with pytest.raises(ServiceError) as failed:
            await fetching
        assert failed.value.status == status
        assert server.calls == []


async def test_a_request_whose_time_is_shorter_than_ours_does_not_wait_for_ours() -> None:
    async with asyncio.timeout(60), serving(silent) as server:
        fetcher = fetcher_of(server.port, timeout_s=3600.0)
        with pytest.raises(ServiceError) as failed:
            await fetcher.fetch(fetch_request(f"http://{GOOD}:{server.port}/a.png", timeout_s=0.1))
    assert failed.value.param == PARAM
