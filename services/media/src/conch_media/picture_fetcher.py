"""Fetches one picture: reads its URL, checks its host, asks its server, follows few redirects, looks at the file.

Each redirect goes through the same checks as the URL itself. A name is resolved once; what is connected to is what was
checked, so a name that stands for something else a moment later is of no use to anybody.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass

from conch_contracts.forbidden_addresses import IpAddress
from conch_contracts.messages.pictures import FetchPictureRequest
from conch_kit.addresses.rules import Resolution
from conch_media import refusals
from conch_media.hosts import is_allowed
from conch_media.picture_format import media_type_of
from conch_media.picture_server import FileTooLarge, ServerAnswer, ServerFailed, ask
from conch_media.picture_url import PORTS, BadUrl, PictureUrl, read_redirect, read_url

log = logging.getLogger(__name__)

MOST_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Resolve = Callable[[str], Awaitable[Resolution]]
WhyRefused = Callable[[Resolution], str | None]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one fetch may take."""

    max_bytes: int
    connect_timeout_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class FetchedPicture:
    """A file that begins as a picture does."""

    file: bytes
    media_type: str


class _Refused(Exception):
    """The host, its addresses or a redirect may not be used; the message is for the log."""


class PictureFetcher:
    """Fetches pictures from hosts of which the rules think well."""

    def __init__(
        self,
        resolve: Resolve,
        why_refused: WhyRefused,
        trusted: ssl.SSLContext,
        limits: FetchLimits,
        *,
        ports: Set[int] = PORTS,
    ) -> None:
        self._resolve = resolve
        self._why_refused = why_refused
        self._trusted = trusted
        self._limits = limits
        self._ports = ports

    async def fetch(self, request: FetchPictureRequest) -> FetchedPicture:
        """Return the picture; raises a ServiceError."""
        most, param = min(self._limits.max_bytes, request.max_bytes), request.param
        try:
            url = read_url(request.url, self._ports)
        except BadUrl as error:
            raise refusals.bad_url(param, str(error)) from error
        try:
            async with asyncio.timeout(min(self._limits.timeout_s, request.timeout_s)):
                answer = await self._follow(url, request, most)
        except TimeoutError as error:
            raise refusals.too_slow(param) from error
        except _Refused as error:
            log.info("A picture may not be fetched.", extra={"host": url.host, "reason": str(error)})
            raise refusals.not_to_be_fetched(param) from error
        except FileTooLarge as error:
            raise refusals.too_large(param, most) from error
        except ServerFailed as error:
            log.info("The server of a picture failed.", extra={"host": url.host, "reason": str(error)})
            raise refusals.server_failed(param) from error
        return _picture(answer, param)

    async def _follow(self, url: PictureUrl, request: FetchPictureRequest, most: int) -> ServerAnswer:
        """Return the first answer that is no redirect; raises _Refused and what `ask` raises."""
        for _ in range(MOST_REDIRECTS + 1):
            addresses = await self._checked(url, request)
            answer = await ask(
                url,
                addresses,
                most_bytes=most,
                connect_timeout_s=self._limits.connect_timeout_s,
                trusted=self._trusted,
            )
            if answer.status not in _REDIRECTS or answer.location is None:
                return answer
            try:
                url = read_redirect(url, answer.location, self._ports)
            except BadUrl as error:
                raise _Refused(f"It redirects to a URL that cannot be used: {error}.") from error
        raise _Refused(f"It redirects more than {MOST_REDIRECTS} times.")

    async def _checked(self, url: PictureUrl, request: FetchPictureRequest) -> tuple[IpAddress, ...]:
        """Return the addresses of a URL's host; raises _Refused."""
        if not is_allowed(url.host, request.allowed_domains):
            raise _Refused(f"The model does not allow {url.host}.")
        try:
            found = await self._resolve(url.host)
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            raise _Refused(f"{url.host} cannot be resolved: {error}.") from error
        if (why := self._why_refused(found)) is not None:
            raise _Refused(f"{url.host} ({', '.join(map(str, found.addresses))}): {why}.")
        return found.addresses


def _picture(answer: ServerAnswer, param: str) -> FetchedPicture:
    """Return the picture that an answer holds; raises a ServiceError."""
    if 400 <= answer.status < 500:
        raise refusals.refused_by_server(param, answer.status)
    if answer.status != 200:
        raise refusals.server_failed(param)
    if answer.packed:
        raise refusals.packed(param)
    media_type = media_type_of(answer.file)
    if media_type is None:
        raise refusals.no_picture(param)
    return FetchedPicture(answer.file, media_type)
