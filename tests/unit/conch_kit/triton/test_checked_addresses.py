import pytest

from conch_contracts.names import EngineAddress
from conch_kit.addresses.rules import AddressRules
from conch_kit.triton.checked_addresses import NO_RULES, CheckedAddresses, without_name
from conch_kit.triton.errors import EngineUnavailable

GUARDED = CheckedAddresses(AddressRules(allowed=("10.0.0.0/8", "fd00::/8")))


@pytest.mark.parametrize(
    ("named", "dialled"),
    [
        ("10.0.0.1:8001", "ipv4:10.0.0.1:8001#10.0.0.1:8001"),
        ("[fd00::1]:8001", "ipv6:[fd00::1]:8001#[fd00::1]:8001"),
        ("http://[fd00::1]:8000", "http://[fd00::1]:8000#[fd00::1]:8000"),
    ],
)
async def test_what_was_checked_is_dialled_under_its_name(named: str, dialled: str) -> None:
    found = await GUARDED.dialled(EngineAddress(named), "team")
    assert found == dialled
    assert without_name(found) == tuple(dialled.split("#"))


async def test_what_may_not_be_named_is_not_dialled() -> None:
    with pytest.raises(EngineUnavailable):
        await GUARDED.dialled(EngineAddress("127.0.0.1:6379"), "team")


async def test_conchs_own_engines_and_those_of_a_laptop_are_not_checked() -> None:
    own = EngineAddress("127.0.0.1:8001")
    assert await GUARDED.dialled(own, None) == own
    assert await NO_RULES.dialled(own, "local") == own
    assert without_name(own) == (own, None)
