"""Addresses that are good on a laptop alone: the types take them, and say which they are."""

from collections.abc import Iterator
from typing import Any

import pytest

from conch_contracts.modeldeployment import parse
from conch_contracts.spec.addresses import LEADS_BACK, leads_back
from generate.crd import schema
from testkit.bad_models import LOOPBACK_HOSTS, OTHER_HOSTS, model, naming


@pytest.mark.parametrize(
    ("host", "back"), [*((host, True) for host in LOOPBACK_HOSTS), *((host, False) for host in OTHER_HOSTS)]
)
def test_what_leads_back_is_known_in_every_form_and_taken_on_a_laptop(host: str, back: bool) -> None:
    for written in (f"{host}:8001", f"http://{host}", f"https://{host}:9000", f"http://{host}/folder"):
        assert leads_back(written) is back, written
    for spec in naming(host).values():
        parse(model(spec))


@pytest.mark.parametrize(
    "address", ["127.1:1", "2130706433:1", "0x7f000001:1", "0177.0.0.1:1", "[0:0:0:0:0:0:0:1]:1", "[::ffff:7f00:1]:1"]
)
def test_other_forms_of_loopback_addresses_are_no_addresses_at_all(address: str) -> None:
    with pytest.raises(Exception, match=r"spec\.engine\.external\.grpc"):
        parse(model({"engine": {"external": {"grpc": address, "dialect": "tokens"}}}))


def test_a_cluster_asks_the_same_of_every_address_that_is_connected_to() -> None:
    asked = [path for path, rule in _rules(schema()) if rule["message"] == LEADS_BACK]
    assert sorted(path.removeprefix(".properties") for path in asked) == [
        ".spec.engine.external.grpc",
        ".spec.engine.external.http",
        ".spec.source.s3.endpoint",
    ]


def _rules(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    if isinstance(part, dict):
        for rule in part.get("x-kubernetes-validations", ()):
            yield path, rule
        for name, value in part.items():
            yield from _rules(value, path if name == "properties" else f"{path}.{name}")
