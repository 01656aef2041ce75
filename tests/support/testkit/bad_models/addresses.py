"""Specs that name an address that must not be reached, or that is none."""

from testkit.bad_models.case import EXTERNAL, Case, Spec, engine, s3

ADDRESS_CASES = (
    *(
        Case(6, f"the metadata service at {host}", s3(endpoint=f"http://{host}/"), "s3.endpoint", s3(), "link-local")
        for host in (
            "169.254.169.254",
            "metadata.google.internal",
            "[fd00:ec2::254]",
            "[FE80::1]",
            "[fd20:00ce::254]",
            "100.100.100.200",
            "metadata.goog",
        )
    ),
    *(
        Case(6, f"the IPv6 address {host}", s3(endpoint=f"http://{host}/"), "s3.endpoint", s3(), "a whole IPv6 address")
        for host in (
            "[::ffff:a9fe:a9fe]",
            "[::a9fe:a9fe]",
            "[64:ff9b::a9fe:a9fe]",
            "[0064:ff9b:0:0:0:0:6464:64c8]",
            "[64:ff9b:1::a9fe:a9fe]",
            "[2002:a9fe:a9fe::]",
            "[2001:0:1:2:3:4:5601:5601]",
            "[:::::]",
            "[1:2:3]",
        )
    ),
    Case(
        6,
        "an engine at a malformed IPv6 address",
        engine(external={**EXTERNAL, "grpc": "[:::::]:8001"}),
        "spec.engine.external.grpc",
        engine(external={**EXTERNAL, "grpc": "[2001:db8::1]:8001"}),
        "a whole IPv6 address",
    ),
    Case(
        6,
        "an engine at an IPv6 address that stands for an IPv4 one",
        engine(external={**EXTERNAL, "grpc": "[::7f00:1]:8001"}),
        "spec.engine.external.grpc",
        engine(external={**EXTERNAL, "grpc": "[2001:db8::1]:8001"}),
        "a whole IPv6 address",
    ),
    Case(
        6,
        "an engine at a metadata service",
        engine(external={**EXTERNAL, "grpc": "169.254.169.254:80"}),
        "spec.engine.external.grpc",
        engine(external=EXTERNAL),
        "link-local",
    ),
)

LOOPBACK_HOSTS = (
    "127.0.0.1",
    "127.1.2.3",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "[::1]",
    "[::]",
    "localhost",
    "LocalHost",
    "a.b.localhost",
    "localhost.localdomain",
    "localhost6",
    "localhost4.localdomain4",
    "ip6-localhost",
    "IP6-loopback",
)
"""What is refused on a cluster, and means this machine on a laptop."""
OTHER_HOSTS = (
    "10.0.0.127",
    "128.0.0.1",
    "12.7.0.0",
    "127.example.com",
    "0.example.com",
    "[2001:db8::1]",
    "[1::1]",
    "localhost.example.com",
    "mylocalhost",
    "localhosts",
    "localhost-1",
)
"""What looks like it and may be named."""


def naming(host: str) -> dict[str, Spec]:
    """Return specs that name a host, by the field."""
    return {
        "spec.engine.external.grpc": engine(external={**EXTERNAL, "grpc": f"{host}:8001"}),
        "spec.engine.external.http": engine(external={**EXTERNAL, "http": f"{host}:8000"}),
        "spec.source.s3.endpoint": s3(endpoint=f"http://{host}"),
    }
