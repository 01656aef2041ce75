"""Which web pages may call the gateway from a browser; pure.

Off without configured origins: then no header is added, and browsers keep other sites out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Header = tuple[bytes, bytes]

ALLOWED_METHODS = b"GET, POST, DELETE, OPTIONS"
PREFLIGHT_AGE_S = b"600"
DEFAULT_HEADERS = b"anthropic-beta, anthropic-version, authorization, content-type, x-api-key, x-request-id"
EXPOSED_HEADERS = (
    b"x-request-id, request-id, retry-after, openai-processing-ms, openai-version, metadata, x-conch-cold-start"
)
MAX_REQUESTED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Cors:
    """The configured origins; `*` means all."""

    origins: frozenset[bytes]

    @classmethod
    def of(cls, origins: Iterable[str]) -> "Cors":
        """Return the policy for these origins."""
        return cls(frozenset(origin.encode() for origin in origins))

    def headers(self, request: Mapping[bytes, bytes]) -> list[Header]:
        """Return the headers that an answer to this request carries."""
        origin = self._allowed(request)
        if origin is None:
            # What an allowed origin gets is another answer, so a cache must keep them apart.
            return [(b"vary", b"origin")] if self.origins else []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", EXPOSED_HEADERS),
            (b"vary", b"origin"),
        ]

    def preflight(self, request: Mapping[bytes, bytes]) -> list[Header]:
        """Return what the answer to a preflight adds to `headers`; nothing when the origin is not allowed."""
        if self._allowed(request) is None or b"access-control-request-method" not in request:
            return []
        requested = request.get(b"access-control-request-headers", b"")
        return [
            (b"access-control-allow-methods", ALLOWED_METHODS),
            (b"access-control-allow-headers", requested if _is_sane(requested) else DEFAULT_HEADERS),
            (b"access-control-max-age", PREFLIGHT_AGE_S),
        ]

    def _allowed(self, request: Mapping[bytes, bytes]) -> bytes | None:
        origin = request.get(b"origin")
        if origin is None or not self.origins:
            return None
        if b"*" in self.origins:
            return b"*"
        return origin if origin in self.origins else None


def _is_sane(value: bytes) -> bool:
    return 0 < len(value) <= MAX_REQUESTED_BYTES and all(byte in b"-, " or chr(byte).isalnum() for byte in value)
