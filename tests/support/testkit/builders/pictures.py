"""Requests for pictures by URL, a fetcher that takes a test's own server for a public one, and files of each format."""

import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from conch_contracts.messages.pictures import FetchPictureRequest
from conch_kit.addresses.rules import AddressRules, Resolution
from conch_media.picture_fetcher import FetchLimits, PictureFetcher
from conch_media.picture_url import PORTS
from conch_media.process import why_not_public
from testkit.http.hostile_urls import GOOD, PUBLIC

PARAM = "messages.0.content.1.image_url"
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
PICTURES: Mapping[str, bytes] = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0 pixels",
    "image/gif": b"GIF89a pixels",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 pixels",
}
RULES = AddressRules(refused=("8.8.4.4/32",))


def fetch_request(url: str, domains: tuple[str, ...] = ("*",), **changes: Any) -> FetchPictureRequest:
    """Return a request for the picture at a URL, by default from anywhere public."""
    return FetchPictureRequest(url=url, allowed_domains=domains, **{"param": PARAM, **changes})


class PlayedNames:
    """Says what names stand for, each time the next answer of several; the last one holds."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Resolution:
        self.asked.append(host)
        try:
            return Resolution(host, host, (ipaddress.ip_address(host),))
        except ValueError:
            answers = self._answers.get(host, [()])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if not found:
            raise OSError("no such name")
        return Resolution(host, host, tuple(map(ipaddress.ip_address, found)))


def why_refused(found: Resolution) -> str | None:
    """Judge as the process does, except that `PUBLIC` is taken for a public address."""
    others = tuple(address for address in found.addresses if str(address) != PUBLIC)
    if found.addresses and not others:
        return None
    return why_not_public(RULES, Resolution(found.host, found.canonical, others))


def fetcher_of(
    port: int,
    names: PlayedNames | None = None,
    *,
    trusted: ssl.SSLContext | None = None,
    max_bytes: int = 1000,
    timeout_s: float = 30.0,
    connect_timeout_s: float = 30.0,
) -> PictureFetcher:
    """Return a fetcher for which `GOOD` is a public host, and one more port is open."""
    return PictureFetcher(
        names or PlayedNames({GOOD: [(PUBLIC,)]}),
        why_refused,
        trusted or _authorities(),
        FetchLimits(max_bytes, connect_timeout_s, timeout_s),
        ports=PORTS | {port},
    )


@cache
def _authorities() -> ssl.SSLContext:
    return ssl.create_default_context()
