"""Pure: hosts in one form, and which of them a model allows.

The form is lower-case ASCII: names of other scripts become what name servers know (IDNA, UTS 46), so that a host that
only looks like an allowed one is another one. An IPv4 address has four decimal numbers and nothing else is taken for
one: what some libraries read as an address (`2130706433`, `0x7f.1`, `127.1`, `0177.0.0.1`) is refused.
"""

import ipaddress
import re
from collections.abc import Iterable

import idna

from conch_contracts.forbidden_addresses import IpAddress

EVERYWHERE = "*"
_BELOW = "*."
_MOST_CHARACTERS = 253
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class BadHost(ValueError):
    """No name and no address of a host."""


def host_in_one_form(written: str) -> str:
    """Return a host in its one form, an IPv6 address without brackets; raises BadHost."""
    if written.startswith("["):
        return str(_address_in(written))
    name = _as_ascii(written).lower().removesuffix(".")
    if len(name) > _MOST_CHARACTERS or not _NAME.fullmatch(name):
        raise BadHost("its host is not a valid name")
    if _ENDS_IN_NUMBER.fullmatch(name) and address_of(name) is None:
        raise BadHost("its host is an address that is not written as four decimal numbers")
    return name


def address_of(host: str) -> IpAddress | None:
    """Return the address that a host in its one form is; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_allowed(host: str, domains: Iterable[str]) -> bool:
    """Return whether one of a model's domains covers a host in its one form.

    `*` covers every host, `*.example.com` all below example.com but not itself, anything else that host alone.
    """
    return any(_covers(domain, host) for domain in domains)


def _covers(domain: str, host: str) -> bool:
    if domain == EVERYWHERE:
        return True
    below = domain.startswith(_BELOW)
    try:
        named = host_in_one_form(domain[len(_BELOW) :] if below else domain)
    except BadHost:
        return False
    if not below:
        return host == named
    return host.endswith(f".{named}") and address_of(host) is None


def _as_ascii(name: str) -> str:
    if name.isascii():
        return name
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except UnicodeError as error:  # IDNAError is one
        raise BadHost("its host is not a valid name") from error


def _address_in(brackets: str) -> ipaddress.IPv6Address:
    try:
        address = ipaddress.IPv6Address(brackets.removeprefix("[").removesuffix("]"))
    except ValueError as error:
        raise BadHost("its host is not a valid IPv6 address") from error
    if address.scope_id is not None or not brackets.endswith("]"):
        raise BadHost("its host is not a valid IPv6 address")
    return address
