"""Addresses that a user names and Conch then connects to.

Whoever may write a ModelDeployment must not reach, through Conch, what only the node or the cloud account should: the
metadata services that answer at link-local addresses are refused wherever an address can be written. On a cluster so
are loopback addresses, which are good on a laptop. What else an author may name is the cluster's to say
(`conch_kit.addresses`).
"""

import re
from typing import Annotated

from pydantic import Field

from conch_contracts.spec.rule_types import Obeys, Rule, matching

_LABEL_START = "([A-Za-z]|0[A-WYZa-wyz]|0[0-9_-]+[A-Za-z]|[1-9][0-9_-]*[A-Za-z])"
"""Of a name's last label: with a letter, and no hexadecimal number, which resolvers take for an address."""
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HOST = (
    rf"(([A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?\.)*{_LABEL_START}([A-Za-z0-9_-]*[A-Za-z0-9])?"
    rf"|{_OCTET}(\.{_OCTET}){{3}}|\[[0-9A-Fa-f:]+\])"
)
PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_METADATA = (
    r"^(https?://)?(169\.254\.|(100\.100\.100\.200|192\.0\.0\.192|168\.63\.129\.16)(:|/|$)"
    r"|\[(?i:fe[89ab]|fd00:0?ec2:|fd20:0{0,2}ce:)"
    r"|(?i:metadata|metadata\.google\.internal|metadata\.goog|instance-data)(:|/|$))"
)
_NO_METADATA = Obeys(
    Rule(
        cel=f"!self.matches(r'{_METADATA}')",
        message="must not be a link-local address or a cloud's metadata service: name the server itself",
        holds=lambda address: re.search(_METADATA, address) is None,
    )
)
LEADS_BACK = (
    "must not be localhost, a loopback address or 0.0.0.0 on a cluster, where they are the pod that connects: name the "
    "server's Service or its own address"
)
_LOOPBACK = (
    r"^(https?://)?((127|0)(\.[0-9]{1,3}){3}|\[::1?\]"
    r"|(?i:([^:/]*\.)?localhost([46]?\.localdomain[46]?|[46])?|ip6-(localhost|loopback)))(:|/|$)"
)
_NOT_THE_SAME_POD = Obeys(
    Rule(
        cel=f"!self.matches(r'{_LOOPBACK}')",
        message=LEADS_BACK,
        holds=lambda _: True,  # On a laptop it is the laptop; `conch validate --cluster` asks `leads_back`.
    )
)
_GROUP = "[0-9A-Fa-f]{1,4}"
_MIDDLES = "|".join(f"({_GROUP}:){{1,{before}}}(:{_GROUP}){{1,{7 - before}}}" for before in range(1, 7))
_IPV6 = rf"\[(({_GROUP}:){{7}}{_GROUP}|({_GROUP}:){{1,7}}:|{_MIDDLES}|:((:{_GROUP}){{1,7}}|:))\]"
_STANDS_FOR_IPV4 = r"\[(?i:::[^\]]*[^:1\]]|::1[^\]]|0+:|0{0,2}64:ff9b:|2002:|2001:0{0,4}:)"
"""IPv4-compatible and mapped addresses, but for `::` and `::1`, NAT64, 6to4 and Teredo."""
_PLAIN_IPV6 = Obeys(
    Rule(
        cel=f"!self.contains('[') || (self.matches(r'{_IPV6}') && !self.matches(r'{_STANDS_FOR_IPV4}'))",
        message="must hold a whole IPv6 address between the brackets, and none that stands for an IPv4 address: write "
        "that one itself, without brackets",
        holds=lambda address: (
            "[" not in address
            or (re.search(_IPV6, address) is not None and re.search(_STANDS_FOR_IPV4, address) is None)
        ),
    )
)

Address = Annotated[
    str,
    Field(max_length=300),
    matching(
        rf"{_HOST}:{PORT}",
        "must be host:port without a scheme, such as triton.example.com:8001; the port is 1 to 65535",
    ),
    _NO_METADATA,
    _PLAIN_IPV6,
    _NOT_THE_SAME_POD,
]
"""host:port."""

HttpUrl = Annotated[
    str,
    Field(max_length=1024),
    matching(
        rf"https?://{_HOST}(:{PORT})?(/[A-Za-z0-9._~/-]*)?",
        "must be a URL of scheme http or https without user, query or fragment, such as https://minio.example.com:9000"
        "; a port is 1 to 65535",
    ),
    _NO_METADATA,
    _PLAIN_IPV6,
    _NOT_THE_SAME_POD,
]
"""A URL of scheme http or https without user, query or fragment."""


def leads_back(address: str) -> bool:
    """Return whether an address or a URL names whoever connects to it, as localhost does."""
    return re.search(_LOOPBACK, address) is not None
