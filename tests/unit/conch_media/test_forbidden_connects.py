"""No hostile URL makes the process connect, or ask a name server, where it may not; whatever it says, it is a 400."""

from collections.abc import AsyncIterator

import pytest

from conch_kit.errors import InvalidRequest
from testkit.builders.pictures import PNG, PlayedNames, fetch_request, fetcher_of
from testkit.http.hostile_urls import (
    BY_ADDRESS,
    BY_DOMAIN,
    BY_NAME,
    BY_REDIRECT,
    BY_TEXT,
    GOOD,
    HOSTILE_URLS,
    PUBLIC,
    HostileUrl,
)
from testkit.servers.scripted_http import Call, ScriptedHttp
from testkit.socket_guard import SocketGuard


@pytest.fixture(scope="session")
def guard() -> SocketGuard:
    return SocketGuard()


class Server:
    """Stands at the public address and answers with a picture, or sends on."""

    def __init__(self) -> None:
        self.redirects_to: str | None = None
        self.http = ScriptedHttp(self._answer, PUBLIC)

    async def _answer(self, call: Call) -> None:
        if self.redirects_to is None:
            await call.answer(PNG)
        else:
            location = self.redirects_to.replace("{port}", str(self.http.port))
            await call.answer(b"", status=302, headers={"location": location})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with made.http:
        yield made


def test_the_table_is_long_enough() -> None:
    assert len({hostile.url + str(hostile.redirects_to) + str(hostile.names) for hostile in HOSTILE_URLS}) >= 60


async def refusal(hostile: HostileUrl, server: Server) -> tuple[InvalidRequest, list[str]]:
    server.redirects_to = hostile.redirects_to
    names = PlayedNames({name: [addresses] for name, addresses in hostile.names.items()})
    url = hostile.url.replace("{port}", str(server.http.port))
    with pytest.raises(InvalidRequest) as refused:
        await fetcher_of(server.http.port, names).fetch(fetch_request(url, hostile.domains))
    return refused.value, names.asked


@pytest.mark.parametrize("hostile", BY_TEXT, ids=lambda hostile: hostile.url[:40])
async def test_what_the_text_shows_is_refused_before_anything_is_asked(
    server: Server, guard: SocketGuard, hostile: HostileUrl
) -> None:
    with guard.looking() as reached:
        error, asked = await refusal(hostile, server)
    assert hostile.says in error.message
    assert (reached.connects, reached.lookups) == ([], [])
    assert asked in ([], [GOOD])


@pytest.mark.parametrize("hostile", BY_DOMAIN, ids=lambda hostile: f"{hostile.url} {hostile.domains}")
async def test_a_host_that_the_model_does_not_allow_is_not_even_looked_up(
    server: Server, guard: SocketGuard, hostile: HostileUrl
) -> None:
    with guard.looking() as reached:
        _, asked = await refusal(hostile, server)
    assert (reached.connects, reached.lookups, asked) == ([], [], [])


@pytest.mark.parametrize("hostile", [*BY_ADDRESS, *BY_NAME], ids=lambda hostile: f"{hostile.url} {hostile.names}")
async def test_an_address_that_is_not_public_is_never_connected_to(
    server: Server, guard: SocketGuard, hostile: HostileUrl
) -> None:
    with guard.looking() as reached:
        await refusal(hostile, server)
    assert (reached.connects, reached.lookups) == ([], [])


@pytest.mark.parametrize("hostile", BY_REDIRECT, ids=lambda hostile: hostile.redirects_to)
async def test_a_redirect_leads_nowhere_that_the_url_itself_could_not(
    server: Server, guard: SocketGuard, hostile: HostileUrl
) -> None:
    with guard.looking() as reached:
        await refusal(hostile, server)
    assert set(reached.connects) == {(PUBLIC, server.http.port)}
    assert len(reached.connects) <= 4
    assert reached.lookups == []


async def test_all_that_is_refused_for_its_host_is_refused_in_the_same_words(server: Server) -> None:
    refused = [await refusal(hostile, server) for hostile in (*BY_ADDRESS, *BY_NAME, *BY_DOMAIN, *BY_REDIRECT)]
    assert len({error.body() for error, _ in refused}) == 1


async def test_a_name_that_stands_for_another_address_a_moment_later_is_of_no_use(
    server: Server, guard: SocketGuard
) -> None:
    names = PlayedNames({GOOD: [(PUBLIC,), ("127.0.0.1",)]})
    with guard.looking() as reached:
        found = await fetcher_of(server.http.port, names).fetch(fetch_request(f"http://{GOOD}:{server.http.port}/"))
    assert found.file == PNG
    assert names.asked == [GOOD]
    assert reached.connects == [(PUBLIC, server.http.port)]


async def test_a_redirect_to_the_same_host_has_its_name_judged_anew(server: Server, guard: SocketGuard) -> None:
    server.redirects_to = "/again"
    names = PlayedNames({GOOD: [(PUBLIC,), ("127.0.0.1",)]})
    with guard.looking() as reached, pytest.raises(InvalidRequest):
        await fetcher_of(server.http.port, names).fetch(fetch_request(f"http://{GOOD}:{server.http.port}/"))
    assert reached.connects == [(PUBLIC, server.http.port)]


async def test_variables_that_name_a_proxy_change_nothing(
    server: Server, guard: SocketGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with guard.looking() as reached:
        await fetcher_of(server.http.port).fetch(fetch_request(f"http://{GOOD}:{server.http.port}/"))
    assert reached.connects == [(PUBLIC, server.http.port)]
