import ipaddress

import pytest
from pydantic import ValidationError

from conch_kit.addresses.rules import AddressRules, Resolution

REDIS = ipaddress.ip_address("10.96.0.10")
RULES = AddressRules(
    allowed=("10.28.0.0/16", "*.Models.svc", "10.96.0.0/12", "192.168.7.7"),
    refused=("10.28.9.0/24", "*.evil.example"),
    own=("redis.conch.svc", "kubernetes.default.svc"),
)
DEFAULT = AddressRules()


def refused(rules: AddressRules, host: str, *addresses: str, canonical: str = "") -> str | None:
    found = tuple(ipaddress.ip_address(address) for address in addresses)
    return rules.why_refused(Resolution(host, canonical or host, found), "team", frozenset({REDIS}))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("::a9fe:a9fe", "::a9fe:a9fe"),
        ("64:ff9b:1::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe"),
        ("2002:a9fe:a9fe::", "2002:a9fe:a9fe::"),
        ("metadata.goog", "169.254.169.254"),
        ("127.0.0.1", "127.0.0.1"),
        ("::7f00:1", "::7f00:1"),
        ("localhost", "127.0.0.1"),
        ("::1", "::1"),
        ("0.0.0.0", "0.0.0.0"),
        ("::", "::"),
        ("10.96.0.1", "10.96.0.1"),
        ("x.default.svc", "10.96.3.4"),
        ("x.default", "10.96.3.4"),
        ("triton", "10.96.3.4"),
        ("rebound.example.com", "10.244.0.7"),
        ("shared.example.com", "100.64.0.1"),
        ("64:ff9b::a60:1", "64:ff9b::a60:1"),
        ("fd00::1", "fd00::1"),
    ],
)
def test_only_the_internet_and_the_own_namespace_may_be_named_by_default(host: str, address: str) -> None:
    assert refused(DEFAULT, host, address) is not None


@pytest.mark.parametrize("host", ["triton.team.svc", "0.triton.team.svc", "Triton.team.svc.cluster.local"])
def test_services_of_the_own_namespace_may_be_named(host: str) -> None:
    assert refused(DEFAULT, host, "10.96.3.4", canonical="triton.team.svc.cluster.local.") is None


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("alias.team.svc", "redis.conch.svc.cluster.local"),
        ("alias.team.svc", "inside.example.com"),
        ("x.team.svc.evil.example", "x.team.svc.evil.example"),
        ("elsewhere.example", "triton.team.svc.cluster.local"),
    ],
)
def test_an_alias_in_the_own_namespace_leads_nowhere_else(host: str, canonical: str) -> None:
    assert refused(DEFAULT, host, "10.96.3.4", canonical=canonical) is not None


def test_a_service_elsewhere_is_refused_although_its_address_is_public() -> None:
    assert refused(DEFAULT, "x.default.svc", "3.5.7.9", canonical="x.default.svc.cluster.local") is not None


def test_the_internet_may_be_named() -> None:
    assert refused(DEFAULT, "triton.example.com", "3.5.7.9", "2600:1f18::9") is None
    assert refused(DEFAULT, "64:ff9b::305:709", "64:ff9b::305:709") is None


def test_one_private_address_beside_public_ones_is_enough() -> None:
    assert refused(DEFAULT, "triton.example.com", "3.5.7.9", "10.0.0.1") is not None


def test_a_range_and_a_host_may_be_allowed() -> None:
    assert refused(RULES, "10.28.31.48", "10.28.31.48") is None
    assert refused(RULES, "triton.corp", "10.28.31.48", "10.28.31.49") is None
    assert refused(RULES, "triton.corp", "10.28.31.48", "10.29.0.1") is not None
    assert refused(RULES, "x.models.svc", "10.96.3.4", canonical="x.models.svc.cluster.local") is None
    assert refused(RULES, "disk.corp", "192.168.7.7") is None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.28.9.1", "10.28.9.1"),
        ("x.evil.example", "3.5.7.9"),
        ("10.96.0.10", "10.96.0.10"),
        ("redis.conch.svc", "10.96.0.11"),
        ("::ffff:10.96.0.10", "::ffff:10.96.0.10"),
        ("x.models.svc", "169.254.169.254"),
    ],
)
def test_what_is_refused_or_the_releases_own_cannot_be_allowed(host: str, address: str) -> None:
    assert refused(RULES, host, address) is not None


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError):
        AddressRules(allowed=("10.28.0.0/33",))
