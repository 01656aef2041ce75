"""The endpoint: reads a request, has its picture fetched, and answers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from conch_contracts.messages.pictures import FetchPictureRequest
from conch_kit.http.asgi import Receive, Scope, Send, respond
from conch_kit.http.caller_connection import connection
from conch_kit.http.message_body import read_message
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.http.worker_answers import counted, whole_answer
from conch_media import refusals
from conch_media.metrics import MediaMetrics
from conch_media.picture_fetcher import PictureFetcher

_MOST_BYTES = 1024 * 1024
"""Of a message: a URL and a list of domains."""


class FetchHandler:
    """Answers `POST /internal/v1/fetch-picture`."""

    def __init__(
        self, fetcher: PictureFetcher, in_flight: InFlightRequests, metrics: MediaMetrics, max_fetches: int
    ) -> None:
        self._fetcher = fetcher
        self._in_flight = in_flight
        self._metrics = metrics
        self._max_fetches = max_fetches
        self._at_work = 0
        """Requests whose picture is being fetched or sent on; both keep it in memory."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raises ServiceError and ClientGone."""
        began = time.monotonic()
        try:
            with counted(self._metrics.requests):
                request = await read_message(receive, FetchPictureRequest, limit=_MOST_BYTES)
                with self._room():
                    picture = await whole_answer(self._fetcher.fetch(request), connection(scope), self._in_flight)
                    self._metrics.bytes.inc(len(picture.file))
                    await respond(send, 200, picture.file, [(b"content-type", picture.media_type.encode())])
        finally:
            self._metrics.duration.observe(time.monotonic() - began)

    @contextmanager
    def _room(self) -> Iterator[None]:
        if self._at_work >= self._max_fetches:
            raise refusals.too_many()
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1
