"""Pure: which addresses whoever writes a ModelDeployment may have Conch connect to.

Without rules everything may be named: `conch up` on a laptop has none. With rules, the public internet may be named and
the Services of the author's own namespace, and what the rules allow beside them; see docs/sources.md.
"""

import ipaddress
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from conch_contracts.forbidden_addresses import IpAddress, is_forbidden, is_public, meanings


def _checked(entry: str) -> str:
    """Return a range in its usual form, a host in lower case; raises ValueError for a range that is none."""
    try:
        return str(ipaddress.ip_network(entry, strict=False))
    except ValueError:
        if "/" in entry:
            raise
        return entry.lower()


Entry = Annotated[str, AfterValidator(_checked)]
"""A range of addresses such as 10.28.0.0/16, or a host; in a host `*` stands for any characters."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a host stands for now."""

    host: str
    """As it was named, an IPv6 address without brackets."""
    canonical: str
    """The name behind all aliases."""
    addresses: tuple[IpAddress, ...]


class AddressRules(BaseModel):
    """The rules of one release."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    allowed: tuple[Entry, ...] = ()
    """What authors may name beside the public internet and their own namespace."""
    refused: tuple[Entry, ...] = ()
    """What they may not name, whatever else says so."""
    own: tuple[str, ...] = ()
    """Hosts of the release itself and of the API server: nobody may name them, nor their addresses."""
    cluster_domain: str = "cluster.local"
    """The domain of the cluster's Services."""

    def why_refused(self, found: Resolution, namespace: str, own: Set[IpAddress]) -> str | None:
        """Return why an author in this namespace may not have it connected to; None where they may.

        `own`: what the rules' own hosts stand for now.
        """
        names = {found.host.lower(), found.canonical.lower().rstrip(".")}
        each = [meaning for address in found.addresses for meaning in meanings(address)]
        if not found.addresses or any(is_forbidden(str(address)) for address in each):
            return "it is a link-local address or a cloud's metadata service"
        if names & set(self.own) or own & set(each):
            return "it is Conch's own or the API server's"
        if _named(names, self.refused) or any(_within(address, self.refused) for address in each):
            return "the cluster's settings refuse it"
        if _named({found.host.lower()}, self.allowed) or all(
            any(_within(meaning, self.allowed) for meaning in meanings(address)) for address in found.addresses
        ):
            return None
        if self._is_service_of(found, namespace):
            return None
        if any(self._is_service(name) for name in names):
            return "it is a Service of another namespace"
        if not all(map(is_public, found.addresses)):
            return "it is no public address, and the cluster's settings do not allow it"
        return None

    def _is_service(self, name: str) -> bool:
        return name.endswith((".svc", f".svc.{self.cluster_domain}"))

    def _is_service_of(self, found: Resolution, namespace: str) -> bool:
        """Return whether this is the namespace's own; an alias of a Service elsewhere has another canonical name."""
        whole = f".{namespace}.svc.{self.cluster_domain}"
        by_name = found.host.lower().endswith((f".{namespace}.svc", whole))
        return by_name and found.canonical.lower().rstrip(".").endswith(whole)


def _named(names: Iterable[str], entries: Collection[str]) -> bool:
    return any(fnmatchcase(name, entry) for name in names for entry in entries)


def _within(address: IpAddress, entries: Iterable[str]) -> bool:
    return any(address in ipaddress.ip_network(entry, strict=False) for entry in entries if "/" in entry)
