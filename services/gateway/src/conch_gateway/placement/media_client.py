"""The client of the media process, which fetches pictures by URL: one message, and the file as the answer."""

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID
from conch_contracts.messages.message import to_json
from conch_contracts.messages.pictures import FetchPictureRequest
from conch_contracts.names import FETCH_PICTURE_PATH, WorkerUrl
from conch_contracts.records import PictureProfile
from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.upstream.port import ConnectFailed, Header, Post, Upstream, UpstreamFailure, read_all
from conch_kit.deadlines import time_limit
from conch_kit.errors import InvalidRequest, Unavailable, UpstreamTimeout
from conch_kit.logs import request_id_var

TIMEOUT_S = 5.0
"""One picture."""
_GRACE_S = 2.0
"""The media process keeps the time; the gateway steps in this much later, when that process itself hangs."""
_MOST_ERROR_BYTES = 64 * 1024
"""Of an error, where the file may be shorter."""


class MediaClient:
    """The media processes, seen as one: behind their one URL is a Service, or a single process."""

    def __init__(self, upstream: Upstream, url: str, token: str | None, *, timeout_s: float = TIMEOUT_S) -> None:
        self._upstream = upstream
        self._url = WorkerUrl(url)
        self._token: tuple[Header, ...] = () if token is None else ((INTERNAL_TOKEN.encode(), token.encode()),)
        self._timeout_s = timeout_s

    async def fetch(self, url: str, profile: PictureProfile, param: str) -> bytes:
        """Return the file at a URL that `param` names, where the model allows it; raises a ServiceError.

        Leaving early ends the fetch.
        """
        if not self._url:
            raise _invalid(param, "nobody fetches pictures here, so they are taken as 'data:' URLs only")
        request = FetchPictureRequest(
            url=url,
            allowed_domains=profile.allowed_domains,
            max_bytes=profile.max_bytes,
            param=param,
            timeout_s=self._timeout_s,
        )
        try:
            body = to_json(request)
        except UnicodeEncodeError as error:
            raise _invalid(param, "the URL holds half of a character") from error
        post = Post(self._url, FETCH_PICTURE_PATH, (*self._request_id(), *self._token), body)
        try:
            with time_limit(self._timeout_s + _GRACE_S):
                try:
                    return await self._ask(post, profile.max_bytes)
                except ConnectFailed:  # of several processes one may just have ended
                    return await self._ask(post, profile.max_bytes)
        except TimeoutError:
            raise UpstreamTimeout(f"The picture at '{param}' did not come in time.", param=param) from None
        except UpstreamFailure as failure:
            raise Unavailable("No process that fetches pictures answered.") from failure

    async def _ask(self, post: Post, most_bytes: int) -> bytes:
        async with self._upstream.post(post) as answer:
            body = await read_all(answer, limit=max(most_bytes, _MOST_ERROR_BYTES))
            if answer.status != 200:
                raise as_error(answer.status, answer.headers, body)
            return body

    def _request_id(self) -> tuple[Header, ...]:
        request_id = request_id_var.get()
        return () if request_id is None else ((REQUEST_ID.encode(), request_id.encode()),)


def _invalid(param: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{param}': {why}.", param=param, code="invalid_value")
