"""The parts of messages: texts, and pictures in their places; pure.

Every API comes here, because Responses and Messages have become messages of chat by then. A picture is taken as it
came, as base64 that nobody has looked into: to decode it is the tokenizer's work.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conch_contracts.messages.generation import PictureForm
from conch_contracts.messages.pictures import MOST_URL_BYTES
from conch_contracts.messages.tokenization import Picture, PictureLimits, without_white_space
from conch_contracts.openai.chat import ChatMessage, ImagePart, TextPart
from conch_contracts.records import Dialect, PictureProfile, Route
from conch_gateway.errors.bad_request import invalid, unsupported, unsupported_by_model
from conch_gateway.requests.refusals.of_parts import NO_KEPT_PICTURE, instead_of
from conch_kit.errors import InvalidRequest

_FORMS: Mapping[Dialect, PictureForm] = {Dialect.VLLM: PictureForm.PNG}
"""In which form engines get pictures, where that is not as pixels."""
OWN_NAME = "named"
"""Of a part that was translated from another API: what that API calls it."""

_KINDS = ("text", "image_url", "refusal")
"""The types of parts; the last is the assistant's alone."""
_NO_PICTURE = "expected a URL, or an object with one as 'url', found null"
_SHOWN_BY = ("user", "tool")
_TYPES = ("png", "jpeg", "jpg", "webp", "gif")
_DATA = re.compile(r"data:(?P<type>[^;,]{0,100})(?:;[^;,]{1,100}){0,4}?;base64,", re.IGNORECASE)
_HTTP = re.compile(r"https?://", re.IGNORECASE)
_CONTENTS = ("text_1", "text_2", "data_1", "data_2", "queries", "documents", "items", "query", "inputs")
"""Fields of encoders whose texts and pictures may come in parts."""


class RemotePicture(Picture, frozen=True, kw_only=True):
    """A picture that is to be fetched first: its `data` is its URL."""


def refuse(document: Mapping[str, object]) -> None:
    """Raise InvalidRequest for the first part that no model here can take, in a request that is not validated yet."""
    for index, message in enumerate(_objects(document.get("messages"))):
        if isinstance(message, dict):
            _refuse_within(message.get("content"), f"messages.{index}.content")
    for name in _CONTENTS:
        given = document.get(name)
        if isinstance(given, dict):
            _refuse_within(given.get("content"), f"{name}.content")
        for index, text in enumerate(_objects(given)):
            if isinstance(text, dict):
                _refuse_within(text.get("content"), f"{name}.{index}.content")


def check_place(message: ChatMessage, where: str) -> None:
    """Raise InvalidRequest for a picture in a message of whom no pictures come."""
    for at, _ in _pictures(message):
        if message.role not in _SHOWN_BY:
            why = f"only the user and tools show pictures, found the role '{message.role}'"
            raise invalid(_name(where, at), why)


def has_pictures(messages: Sequence[ChatMessage]) -> bool:
    """Tell whether there is a picture in any message."""
    return any(True for message in messages for _ in _pictures(message))


def results_shown(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """Return the messages with the pictures of tools' results in the user's message behind these.

    Templates have a place for pictures in what the user says, and in no other message.
    """
    if not any(message.role == "tool" and any(_pictures(message)) for message in messages):
        return messages
    found: list[ChatMessage] = []
    waiting: list[ImagePart] = []
    for message in messages:
        if waiting and message.role not in ("tool", "function"):
            if message.role == "user":
                found.append(message.model_copy(update={"content": [*waiting, *_as_parts(message)]}))
            else:
                found += [ChatMessage(role="user", content=[*waiting]), message]
            waiting = []
        elif message.role == "tool" and (shown := [part for _, part in _pictures(message)]):
            waiting += shown
            texts = [part for part in _as_parts(message) if not isinstance(part, ImagePart)]
            found.append(message.model_copy(update={"content": texts or ""}))
        else:
            found.append(message)
    return [*found, ChatMessage(role="user", content=[*waiting])] if waiting else found


def pictures(messages: Sequence[ChatMessage], route: Route) -> tuple[Picture, ...]:
    """Return the pictures of the messages in their order; raises InvalidRequest for what the model does not take."""
    found: list[Picture] = []
    for index, message in enumerate(messages):
        for at, part in _pictures(message):
            where = _name(f"messages.{index}", at)
            if route.pictures is not None and len(found) == route.pictures.max:
                raise too_many(route.pictures.max, where)
            found.append(picture(part, where, route))
    return tuple(found)


def picture(part: ImagePart, where: str, route: Route) -> Picture:
    """Return one picture, which stands there in the request; raises InvalidRequest for what the model does not take."""
    if route.pictures is None:
        raise unsupported_by_model(where, "the model takes text alone")
    if _HTTP.match(part.url):
        _check_url(part.url, route.pictures, where)
        return RemotePicture(data=part.url, param=where)
    return Picture(data=_data(part.url, route.pictures, where), param=where)


def too_many(most: int, where: str) -> InvalidRequest:
    """Return the error for the first picture of a prompt that is one too many."""
    images = f"{most} image{'' if most == 1 else 's'}"
    return InvalidRequest(f"At most {images} may be provided in one prompt.", param=where, code="invalid_value")


def sight(route: Route) -> dict[str, Any]:
    """Return those fields of a request to prepare a prompt that are for models that see; none for others."""
    form = _FORMS.get(route.dialect, PictureForm.PIXELS)
    return {} if route.pictures is None else {"picture_limits": limits(route.pictures), "picture_form": form}


def limits(profile: PictureProfile) -> PictureLimits:
    """Return what the tokenizer must know of a model that sees."""
    return PictureLimits(max=profile.max, max_pixels=profile.max_pixels, max_bytes=profile.max_bytes)


def size_of(found: Sequence[Picture]) -> int:
    """Return how many characters pictures have."""
    return sum(len(picture.data) for picture in found)


def own_names(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return what another API calls the pictures of a conversation that was translated from it, by chat's name."""
    return {
        _name(f"messages.{index}", at): part[OWN_NAME]
        for index, message in enumerate(messages)
        if isinstance(message["content"], list)
        for at, part in enumerate(message["content"])
        if OWN_NAME in part
    }


def shown(url: str, name: str) -> dict[str, Any]:
    """Return the part of chat that shows another API's picture, which has this name there."""
    return {"type": "image_url", "image_url": {"url": url}, OWN_NAME: name}


def _objects(given: object) -> Sequence[object]:
    """Return a list of objects; one of others is none: there may be a million token ids."""
    return given if isinstance(given, list) and given and isinstance(given[0], dict) else ()


def _refuse_within(parts: object, where: str) -> None:
    for at, part in enumerate(parts if isinstance(parts, list) else ()):
        if not isinstance(part, dict):  # the types refuse it, and there may be a million like it
            return
        kind = part.get("type")
        if not isinstance(kind, str):
            continue
        instead = instead_of(kind, "image_url")
        if instead is not None:
            raise unsupported(f"{where}.{at}.type", instead)
        if kind not in _KINDS:
            raise invalid(f"{where}.{at}.type", f"expected 'text' or 'image_url', found '{kind[:40]}'")
        if kind == "image_url" and part.get("image_url", "") is None:
            name = f"{where}.{at}.image_url"
            raise unsupported(name, NO_KEPT_PICTURE) if part.get("uuid") else invalid(name, _NO_PICTURE)


def _pictures(message: ChatMessage) -> Iterator[tuple[int, ImagePart]]:
    if isinstance(message.content, list):
        yield from ((at, part) for at, part in enumerate(message.content) if isinstance(part, ImagePart))


def _as_parts(message: ChatMessage) -> list[Any]:
    content = message.content
    if isinstance(content, list):
        return list(content)
    return [TextPart(type="text", text=content)] if content else []


def _name(where: str, at: int) -> str:
    return f"{where}.content.{at}.image_url"


def _check_url(url: str, profile: PictureProfile, where: str) -> None:
    """Raise InvalidRequest for a URL that is not to be fetched."""
    if not profile.allowed_domains:
        raise invalid(where, "this model takes pictures only in the request itself, as 'data:' URLs")
    if len(url) > MOST_URL_BYTES:
        raise invalid(where, f"expected a URL of at most {MOST_URL_BYTES} bytes")


def _data(url: str, profile: PictureProfile, where: str) -> str:
    """Return a picture's base64; raises InvalidRequest."""
    found = _DATA.match(url)
    if found is None:
        raise invalid(where, "expected 'data:image/png;base64,' and behind it the file in base64")
    kind, _, form = found["type"].lower().partition("/")
    if kind != "image" or form not in _TYPES:
        raise invalid(where, f"expected a picture in PNG, JPEG, WEBP or GIF, found '{found['type'][:40]}'")
    data = url[found.end() :]
    if not data:
        raise invalid(where, "expected the file in base64, found nothing")
    size = _size(data)
    if size > profile.max_bytes and (size := _size(without_white_space(data))) > profile.max_bytes:
        raise invalid(where, f"expected a file of at most {profile.max_bytes} bytes, found {size}")
    return data


def _size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")
