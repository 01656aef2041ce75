"""Asks a server for a file over HTTP, at addresses that were checked and at no others.

Only this module knows the HTTP client. It gets the addresses instead of a resolver, and makes no socket for any other.
It obeys no proxy variables, keeps no cookies and no connections, follows no redirects, and unpacks nothing.
"""

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from conch_contracts.forbidden_addresses import IpAddress
from conch_media.picture_url import PictureUrl

_PLAIN = "identity"
_HEADERS = {
    "accept": "image/png, image/jpeg, image/webp, image/gif",
    "accept-encoding": _PLAIN,
    "user-agent": "conch",
}


class ServerFailed(Exception):
    """The server cannot be reached, is not who its name says, or does not speak HTTP."""


class FileTooLarge(Exception):
    """The file is longer than it may be."""


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server said."""

    status: int
    location: str | None
    packed: bool
    """Whether it has another Content-Encoding than the one that was asked for: none."""
    file: bytes
    """The body of a 200 that is not packed; of all others nothing is read."""


async def ask(
    url: PictureUrl,
    addresses: Sequence[IpAddress],
    *,
    most_bytes: int,
    connect_timeout_s: float,
    trusted: ssl.SSLContext,
) -> ServerAnswer:
    """Ask for a file at one of these addresses; raises ServerFailed, FileTooLarge and TimeoutError.

    It has no time-out beyond the connect: the caller owns the deadline.
    """
    connector = aiohttp.TCPConnector(
        resolver=_Checked(addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=trusted,
        socket_factory=_SocketsTo(addresses),
    )
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
    target = URL.build(scheme=url.scheme, authority=url.authority, path=url.path, query_string=url.query, encoded=True)
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
            ) as session,
            session.get(target, headers=_HEADERS, timeout=timeout, allow_redirects=False) as answer,
        ):
            packed = answer.headers.get("content-encoding", _PLAIN).lower() != _PLAIN
            file = await _read(answer, most_bytes) if answer.status == 200 and not packed else b""
            return ServerAnswer(answer.status, answer.headers.get("location"), packed, file)
    except TimeoutError:  # some of the client's errors are one as well
        raise
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ServerFailed(_reason(error)) from None  # what it says may hold a signed URL, or what the server has sent


def _reason(error: Exception) -> str:
    name = type(error).__name__
    return f"{name}: {error.strerror}" if isinstance(error, OSError) and error.strerror else name


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body; raises FileTooLarge as soon as that is known."""
    if (answer.content_length or 0) > most:
        raise FileTooLarge
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > most:
            raise FileTooLarge
        pieces.append(piece)
    return b"".join(pieces)


class _Checked(AbstractResolver):
    """Gives the addresses that were checked, whatever the name."""

    def __init__(self, addresses: Sequence[IpAddress]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        pass


class _SocketsTo:
    """Makes sockets for connections to these addresses; what else the client could come upon is refused here."""

    def __init__(self, addresses: Sequence[IpAddress]) -> None:
        self._addresses = frozenset(addresses)

    def __call__(self, wanted: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = wanted
        if ipaddress.ip_address(address[0]) not in self._addresses:
            raise OSError("The HTTP client wants to connect to an address that was not checked.")
        return socket.socket(family, kind, protocol)
