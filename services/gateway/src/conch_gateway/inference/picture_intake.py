"""What a prompt with pictures still lacks when its request is found valid: whose they are, and those named by URL.

Requests without pictures never come here.
"""

import base64
from collections.abc import Sequence
from typing import Protocol

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.messages.message import changed, to_json
from conch_contracts.messages.tokenization import EncodeTextRequest, Picture, PrepareRequest
from conch_contracts.records import PictureProfile, Route
from conch_gateway.errors.bad_request import invalid
from conch_gateway.http.auth import owner_of
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import off_loop
from conch_gateway.requests import content_parts
from conch_gateway.requests.content_parts import RemotePicture

PictureWork = PrepareRequest | EncodeTextRequest | PrepareRowsRequest
"""What a tokenizer is asked."""
MAX_FETCHED_BYTES = 20_000_000
"""Of all pictures of one request that are fetched: a tokenizer takes 32 MiB of base64."""


class PictureSource(Protocol):
    """Fetches pictures."""

    async def fetch(self, url: str, profile: PictureProfile, param: str) -> bytes:
        """Return the file at a URL that `param` names, where the model allows it; raises a ServiceError."""


class PictureIntake:
    """Completes what tokenizers are asked about prompts with pictures."""

    def __init__(self, source: PictureSource) -> None:
        self._source = source

    async def written(self, work: PictureWork, route: Route, exchange: Exchange) -> bytes:
        """Return the message for a tokenizer; raises a ServiceError that names the picture which cannot be had."""
        pictures = _pictures(work)
        if route.pictures is not None and any(isinstance(one, RemotePicture) for one in pictures):
            pictures = await self._fetched(pictures, route.pictures)
            work = _showing(work, pictures)
        if not isinstance(work, EncodeTextRequest):  # what is only counted is kept nowhere
            work = changed(work, picture_scope=owner_of(exchange.key, exchange.headers))
        return await off_loop(content_parts.size_of(pictures), to_json, work)

    async def _fetched(self, pictures: Sequence[Picture], profile: PictureProfile) -> tuple[Picture, ...]:
        """Return pictures as base64; one after the other, so that few bytes are there at once."""
        found: list[Picture] = []
        left = MAX_FETCHED_BYTES
        for picture in pictures:
            if isinstance(picture, RemotePicture):
                if left <= 0:
                    raise invalid(picture.param, f"pictures of one request have at most {MAX_FETCHED_BYTES} bytes")
                bounded = profile.model_copy(update={"max_bytes": min(profile.max_bytes, left)})
                data = await self._source.fetch(picture.data, bounded, picture.param)
                left -= len(data)
                picture = Picture(data=await off_loop(len(data), _base64, data), param=picture.param)
            found.append(picture)
        return tuple(found)


def _pictures(work: PictureWork) -> tuple[Picture, ...]:
    if isinstance(work, PrepareRowsRequest):
        return work.shown
    return () if work.chat is None else work.chat.pictures


def _showing(work: PictureWork, pictures: tuple[Picture, ...]) -> PictureWork:
    """Return the work with these pictures in the places of its own."""
    if work.chat is None:
        return changed(work, pictures=pictures)
    return changed(work, chat=changed(work.chat, pictures=pictures))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
