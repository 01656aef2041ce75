import asyncio
import ipaddress

import pytest

from conch_kit.addresses import checker as module
from conch_kit.addresses.checker import AddressChecker, AddressRefused
from conch_kit.addresses.rules import AddressRules, Resolution
from testkit.waiting import eventually

RULES = AddressRules(allowed=("10.0.0.0/8",), own=("redis.conch.svc",))


class NameServer:
    """Answers what a test says, and counts."""

    def __init__(self, **addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Resolution:
        self.asked.append(host)
        if host not in self.addresses:
            raise OSError("unknown")
        return Resolution(host, host, (ipaddress.ip_address(self.addresses[host]),))


async def test_what_was_resolved_and_checked_is_returned() -> None:
    names = NameServer(triton="10.0.0.7")
    assert await AddressChecker(RULES, names).check("triton", "team") == (ipaddress.ip_address("10.0.0.7"),)


async def test_an_address_of_the_release_itself_is_refused_under_any_name() -> None:
    names = NameServer(**{"triton": "10.0.0.9", "redis.conch.svc": "10.0.0.9"})
    with pytest.raises(AddressRefused, match="Conch's own"):
        await AddressChecker(RULES, names).check("triton", "team")


async def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(AddressRefused, match="cannot be resolved"):
        await AddressChecker(RULES, NameServer()).check("triton", "team")


async def test_name_servers_that_say_nothing_are_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(host: str) -> Resolution:
        await asyncio.Event().wait()
        raise AssertionError(host)

    monkeypatch.setattr(module, "_RESOLVE_S", 0.01)
    with pytest.raises(AddressRefused, match="cannot be resolved"):
        await asyncio.wait_for(AddressChecker(RULES, silent).check("triton", "team"), 30)


async def test_a_name_is_asked_for_again_after_a_while_and_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    names = NameServer(triton="10.0.0.7")
    checker = AddressChecker(RULES, names)
    await checker.check("triton", "team")
    await checker.check("triton", "team")
    assert names.asked.count("triton") == 1
    names.addresses["triton"] = "127.0.0.1"
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    with pytest.raises(AddressRefused):
        await checker.check("triton", "team")


async def test_the_last_answer_holds_while_name_servers_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    names = NameServer(triton="10.0.0.7")
    checker = AddressChecker(RULES, names)
    await checker.check("triton", "team")
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    names.addresses.clear()
    assert await checker.check("triton", "team") == (ipaddress.ip_address("10.0.0.7"),)
    monkeypatch.setattr(module, "STALE_S", 0.0)
    with pytest.raises(AddressRefused):
        await checker.check("triton", "team")


async def test_a_host_is_asked_for_once_at_a_time_and_its_late_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    names, may_answer = NameServer(triton="10.0.0.7"), asyncio.Event()

    async def slow(host: str) -> Resolution:
        found = await names(host)
        if host == "triton":
            await may_answer.wait()
        return found

    monkeypatch.setattr(module, "_RESOLVE_S", 0.01)
    checker = AddressChecker(RULES, slow)
    for _ in range(3):
        with pytest.raises(AddressRefused, match="cannot be resolved"):
            await checker.check("triton", "team")
    may_answer.set()
    await eventually(lambda: not checker._asking, "the late answer")
    assert await checker.check("triton", "team") == (ipaddress.ip_address("10.0.0.7"),)
    assert names.asked.count("triton") == 1


async def test_only_the_hosts_that_were_asked_for_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_HOSTS", 2)
    names = NameServer(one="10.0.0.1", two="10.0.0.2", three="10.0.0.3")
    checker = AddressChecker(AddressRules(allowed=("10.0.0.0/8",)), names)
    for host in ("one", "two", "three", "two", "one"):
        await checker.check(host, "team")
    assert names.asked == ["one", "two", "three", "one"]


async def test_the_systems_resolver_is_asked() -> None:
    rules = AddressRules(allowed=("127.0.0.0/8",))
    assert await AddressChecker(rules).check("127.0.0.1", "team") == (ipaddress.ip_address("127.0.0.1"),)
