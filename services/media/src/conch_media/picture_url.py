"""Pure: a URL taken apart so strictly that nobody after us can read another host in it."""

import re
from collections.abc import Set
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from conch_contracts.messages.pictures import MOST_URL_BYTES
from conch_media.hosts import BadHost, host_in_one_form

PORTS = frozenset({80, 443})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NEVER_WRITTEN = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff\ud800-\udfff]")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]@%]*\]|[^:\[\]@%]+)(?::(?P<port>[0-9]{0,5}))?")
_ASCII = "".join(map(chr, range(0x21, 0x7F)))
"""All characters of a path that go as they are: signed URLs hold only as they were written."""


class BadUrl(ValueError):
    """What no picture is fetched from; the message follows "the URL cannot be used: "."""


@dataclass(frozen=True, slots=True)
class PictureUrl:
    """One URL, checked."""

    scheme: str
    host: str
    """In its one form, see `hosts`."""
    port: int
    path: str
    query: str

    @property
    def authority(self) -> str:
        """What stands in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}" + (f"?{self.query}" if self.query else "")


def read_url(written: str, ports: Set[int] = PORTS) -> PictureUrl:
    """Return the parts of a URL; raises BadUrl."""
    if len(written.encode("utf-8", "surrogatepass")) > MOST_URL_BYTES:
        raise BadUrl(f"it is longer than {MOST_URL_BYTES} bytes")
    if _NEVER_WRITTEN.search(written):
        raise BadUrl("it holds a space, a control character or a backslash")
    try:
        parts = urlsplit(written)
    except ValueError as error:
        raise BadUrl("it is not a valid URL") from error
    if parts.scheme not in _DEFAULT_PORTS:
        raise BadUrl("it does not begin with http:// or https://")
    if "@" in parts.netloc:
        raise BadUrl("it holds a user name or a password")
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if authority is None:
        raise BadUrl("its host or port is not valid")
    port = int(authority["port"] or _DEFAULT_PORTS[parts.scheme])
    if port not in ports:
        raise BadUrl("its port is neither 80 nor 443")
    try:
        host = host_in_one_form(authority["host"])
    except BadHost as error:
        raise BadUrl(str(error)) from error
    return PictureUrl(parts.scheme, host, port, _as_sent(parts.path) or "/", _as_sent(parts.query))


def read_redirect(url: PictureUrl, location: str, ports: Set[int] = PORTS) -> PictureUrl:
    """Return where a redirect of this URL leads; raises BadUrl."""
    if _NEVER_WRITTEN.search(location):
        raise BadUrl("it holds a space, a control character or a backslash")
    try:
        return read_url(urljoin(str(url), location), ports)
    except BadUrl:
        raise
    except ValueError as error:
        raise BadUrl("it is not a valid URL") from error


def _as_sent(part: str) -> str:
    return quote(part, safe=_ASCII)
