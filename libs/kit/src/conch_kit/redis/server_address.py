"""Where a Redis is and who asks it, from a URL."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_PORT: Final = 6379
_TLS_OPTIONS: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server, one user, one database."""

    host: str
    port: int
    path: str | None
    """Of a Unix socket, which then takes the place of host and port."""
    user: str
    password: str
    database: int
    tls: ssl.SSLContext | None

    @classmethod
    def parse(cls, url: str) -> "ServerAddress":
        """Read `redis://`, `rediss://` (TLS) or `unix://`, with `USER:PASSWORD@`; the database is the path, or `db`.

        With TLS the options `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile` name files. Raises ValueError for others,
        OSError for a file that cannot be read.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        database = options.pop("db", "" if parts.scheme == "unix" else parts.path.strip("/"))
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(f"Expected redis://, rediss:// or unix://, found {parts.scheme}://.")
        if unknown := options.keys() - (_TLS_OPTIONS if parts.scheme == "rediss" else frozenset()):
            raise ValueError(f"Expected no such option in the URL of Redis: {', '.join(sorted(unknown))}.")
        if database and not database.isdecimal():
            raise ValueError(f"Expected a number as the database of Redis, found {database!r}.")
        return cls(
            host=unquote(parts.hostname or "localhost"),
            port=parts.port or _PORT,
            path=unquote(parts.path) if parts.scheme == "unix" else None,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=int(database or 0),
            tls=_tls(options) if parts.scheme == "rediss" else None,
        )

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; raises OSError."""
        if self.path is not None:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection(self.host, self.port, ssl=self.tls)

    def greeting(self) -> Iterator[tuple[str, ...]]:
        """Yield the commands that come before all others."""
        if self.password:
            yield ("AUTH", self.user, self.password) if self.user else ("AUTH", self.password)
        if self.database:
            yield "SELECT", str(self.database)


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if "ssl_certfile" in options:
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    return context
