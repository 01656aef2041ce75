"""Where a Redis is and who asks it."""

import asyncio
import ssl
from pathlib import Path

import pytest

from conch_kit.redis.client import RedisClient
from conch_kit.redis.connection import RedisConnection
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.redis.server_address import ServerAddress
from conch_kit.settings import SettingsError
from testkit.certificates import make_authority


@pytest.mark.parametrize(
    ("url", "where", "greeting"),
    [
        ("redis://example.com", ("example.com", 6379, None), []),
        ("redis://example.com:1/0", ("example.com", 1, None), []),
        ("redis://[::1]:7/3", ("::1", 7, None), [("SELECT", "3")]),
        ("redis://:a%2Fb@h/1?", ("h", 6379, None), [("AUTH", "a/b"), ("SELECT", "1")]),
        ("redis://me:p%20w@h?db=2", ("h", 6379, None), [("AUTH", "me", "p w"), ("SELECT", "2")]),
        ("unix://me:pw@/run/redis.sock?db=4", ("localhost", 6379, "/run/redis.sock"),
         [("AUTH", "me", "pw"), ("SELECT", "4")]),
    ],
)  # fmt: skip
def test_a_url_is_read(url, where, greeting):
    address = ServerAddress.parse(url)
    assert (address.host, address.port, address.path) == where
    assert list(address.greeting()) == greeting
    assert address.tls is None


@pytest.mark.parametrize(
    "url",
    ["http://h", "h:6379", "redis://h/x", "redis://h?ssl_ca_certs=/x", "rediss://h?ssl_cert_reqs=none", "redis://h:x"],
)
def test_what_names_no_server_or_asks_for_something_else_is_refused(url):
    with pytest.raises(ValueError, match=r"Expected|Port"):
        ServerAddress.parse(url)


def test_a_client_says_of_a_wrong_url_which_setting_it_is():
    with pytest.raises(SettingsError, match=r"CONCH_REDIS_URL.*no such option.*foo"):
        RedisClient("redis://h?foo=1")


def test_tls_checks_the_server_and_its_name():
    context = ServerAddress.parse("rediss://h").tls
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_missing_file_of_authorities_is_told():
    with pytest.raises(OSError, match="No such file"):
        ServerAddress.parse("rediss://h?ssl_ca_certs=/nowhere/ca.crt")


async def answering(replies: list[bytes]) -> asyncio.Server:
    """Serve one reply to each piece that comes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            if not await reader.read(65_536):
                break
            writer.write(reply)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


def connection(url: str) -> RedisConnection:
    return RedisConnection(ServerAddress.parse(url), connect_timeout_s=10)


def connection_to(server: asyncio.Server, user: str = "") -> RedisConnection:
    port = server.sockets[0].getsockname()[1]
    return connection(f"redis://{user}127.0.0.1:{port}/0")


async def test_error_replies_are_returned_and_those_of_a_server_that_serves_nobody_raised():
    async with await answering([b"-ERR no\r\n", b"*2\r\n:1\r\n-WRONG x\r\n", b"-LOADING wait\r\n"]) as server:
        asking = connection_to(server)
        (error,) = await asking.roundtrip([("GET", "a")])
        assert (type(error), str(error)) == (RegistryError, "ERR no")
        ((number, inner),) = await asking.roundtrip([("EXEC",)])
        assert (number, str(inner)) == (1, "WRONG x")
        with pytest.raises(RegistryUnavailable, match="LOADING"):
            await asking.roundtrip([("GET", "a")])
        assert not asking.connected


@pytest.mark.parametrize("reply", [b"-WRONGPASS no\r\n", b"-ERR invalid\r\n", b"", b"?\r\n"])
async def test_a_connection_that_is_not_let_in_is_closed(reply: bytes):
    async with await answering([reply]) as server:
        asking = connection_to(server, "me:pw@")
        with pytest.raises(RegistryUnavailable):
            await asking.roundtrip([("GET", "a")])
        assert not asking.connected


async def test_a_reply_in_pieces_is_one_reply(tmp_path: Path):
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        for piece in (b"$5\r\nhe", b"l", b"lo\r", b"\n+OK\r\n"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    path = tmp_path / "redis.sock"
    async with await asyncio.start_unix_server(slowly, path):
        unix = connection(f"unix://{path}")
        assert await unix.roundtrip([("GET", "a"), ("SET", b"b", 1, 1.5)]) == [b"hello", b"OK"]
        await unix.close()


async def test_with_tls_the_server_is_one_that_the_authorities_vouch_for(tmp_path: Path):
    known, other = make_authority(tmp_path), tmp_path / "other.crt"
    trusted = tmp_path / "ca.crt"
    trusted.write_text(known.pem)
    (tmp_path / "more").mkdir()
    other.write_text(make_authority(tmp_path / "more").pem)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(100):
            writer.write(b"+PONG\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=known.server) as server:
        port = server.sockets[0].getsockname()[1]
        trusting = connection(f"rediss://127.0.0.1:{port}?ssl_ca_certs={trusted}")
        assert await trusting.roundtrip([("PING",)]) == [b"PONG"]
        await trusting.close()
        with pytest.raises(RegistryUnavailable, match="certificate"):
            await connection(f"rediss://127.0.0.1:{port}?ssl_ca_certs={other}").roundtrip([("PING",)])
