import asyncio
import ipaddress
import socket
import threading
from typing import Any

import pytest

from conch_kit.addresses.name_lookups import NameLookups


async def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    with NameLookups(1, search=False) as lookups:
        assert (await lookups("::1")).addresses == (ipaddress.ip_address("::1"),)


async def test_a_name_is_asked_for_as_it_stands_without_a_search_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(host: str, *_: Any, **__: Any) -> list[Any]:
        assert host == "a.example."
        return [(2, 1, 6, "c.example", ("1.2.3.4", 0)), (10, 1, 6, "", ("2606::1", 0, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", play)
    with NameLookups(1, search=False) as lookups:
        found = await lookups("a.example")
    assert (found.host, found.canonical) == ("a.example", "c.example")
    assert list(map(str, found.addresses)) == ["1.2.3.4", "2606::1"]


async def test_a_name_of_the_search_list_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def play(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", ("1.2.3.4", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", play)
    with NameLookups(1, search=True) as lookups:
        await lookups("triton.team")
    assert asked == ["triton.team"]


async def test_a_name_server_that_says_nothing_holds_up_no_other_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, hangs = threading.Event(), threading.Event()

    def play(host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "silent.example.":
            hangs.set()
            may_end.wait(60)
        return [(2, 1, 6, "", ("1.2.3.4", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", play)
    try:
        with NameLookups(2, search=False) as lookups:
            silent = asyncio.create_task(lookups("silent.example"))
            await asyncio.to_thread(hangs.wait, 30)
            assert (await lookups("b.example")).addresses == (ipaddress.ip_address("1.2.3.4"),)
            assert not silent.done()
            silent.cancel()
    finally:
        may_end.set()


async def test_lookups_that_wait_for_a_thread_end_with_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, hangs, asked = threading.Event(), threading.Event(), []

    def play(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        hangs.set()
        may_end.wait(60)
        return [(2, 1, 6, "", ("1.2.3.4", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", play)
    try:
        with NameLookups(1, search=False) as lookups:
            silent, waiting = (asyncio.create_task(lookups(host)) for host in ("silent.example", "b.example"))
            await asyncio.to_thread(hangs.wait, 30)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 30)
    finally:
        may_end.set()
    assert (await silent).addresses == (ipaddress.ip_address("1.2.3.4"),)
    assert asked == ["silent.example."]
