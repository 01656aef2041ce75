import socket
from typing import Any

import pytest

from conch_kit.addresses.rules import AddressRules
from conch_operator.download.connections import (
    ForbiddenConnection,
    RefusedConnection,
    RuledConnections,
    hosts_of,
    refuse_forbidden_addresses,
)

NAMES = {
    "minio.team.svc": ("minio.team.svc.cluster.local", "10.96.0.7"),
    "alias.team.svc": ("redis.conch.svc.cluster.local", "10.96.0.9"),
    "proxy.corp": ("proxy.corp", "10.0.0.1"),
    "redis.conch.svc": ("redis.conch.svc.cluster.local", "10.96.0.9"),
}
RULES = AddressRules(own=("redis.conch.svc",))


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        canonical, address = NAMES[host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, canonical, (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def ruled(named: str) -> RuledConnections:
    return RuledConnections(RULES, "team", named, hosts_of(["http://proxy.corp:3128", ""]))


def test_row_6_a_metadata_service_is_refused_whatever_else_is_allowed() -> None:
    with pytest.raises(ForbiddenConnection):
        refuse_forbidden_addresses("socket.connect", (None, ("169.254.169.254", 80)))
    refuse_forbidden_addresses("socket.connect", (None, ("10.0.0.1", 80)))
    refuse_forbidden_addresses("open", ("169.254.169.254", None))


@pytest.mark.parametrize("address", ["10.96.0.7", "10.0.0.1", "8.8.8.8"])
def test_the_server_that_is_named_the_proxy_and_the_internet_are_reached(address: str) -> None:
    ruled("minio.team.svc")("socket.connect", (None, (address, 80)))


@pytest.mark.parametrize("address", ["10.96.0.9", "10.96.0.8", "127.0.0.1", "169.254.169.254", "::1"])
def test_what_a_redirect_or_another_answer_of_the_name_server_leads_to_is_not(address: str) -> None:
    with pytest.raises(RefusedConnection):
        ruled("minio.team.svc")("socket.connect", (None, (address, 80)))


def test_a_name_is_judged_before_a_proxy_is_asked_for_it() -> None:
    assert ruled("minio.team.svc").allows_named()
    assert ruled("unknown.example.com").allows_named()
    assert not ruled("alias.team.svc").allows_named()
    assert not ruled("redis.conch.svc").allows_named()
