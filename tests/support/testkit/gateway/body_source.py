"""What follows a body that the gateway sends."""

from conch_gateway.upstream.port import BodySource


async def read_source(source: BodySource) -> bytes:
    """Return all of it."""
    found = b""
    while len(found) < source.size:
        found += await source.piece(len(found))
    return found
