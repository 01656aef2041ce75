"""Pure: what each row of a request is, a text or a picture, in all the forms that clients send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conch_contracts.messages.tokenization import Picture
from conch_contracts.openai.chat import ChatMessage, ImagePart
from conch_contracts.openai.encoders.fields import InParts
from conch_contracts.openai.encoders.rerank import DocumentText
from conch_contracts.records import Route
from conch_gateway.encoders.text_names import TextField, text_field
from conch_gateway.errors.bad_request import invalid, unsupported_by_model
from conch_gateway.requests import content_parts
from conch_gateway.requests.chat_messages import plain_text
from conch_kit.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class PictureContent:
    """A row that is a picture."""

    part: ImagePart
    name: str
    """Where it stands in the request."""
    fault: InvalidRequest | None = None
    """What is wrong with what stands beside it, for models that see."""


Content = str | PictureContent
Several = str | Sequence[str | DocumentText | InParts] | InParts


def one(given: str | DocumentText | InParts, name: str) -> Content:
    """Return what is one row, in whatever form it came."""
    match given:
        case str():
            return given
        case DocumentText():
            return given.text
        case InParts():
            return _together([(f"{name}.content.{at}", part) for at, part in enumerate(given.content)])


def several(given: Several, name: str) -> tuple[Content, ...]:
    """Return what is several rows: each of a list, and each part of a content that stands alone."""
    match given:
        case str():
            return (given,)
        case InParts():
            parts = enumerate(given.content)
            return tuple(_together([(f"{name}.content.{at}", part)]) for at, part in parts)
        case _:
            return tuple(one(item, f"{name}.{index}") for index, item in enumerate(given))


def field_of(given: Several, name: str) -> TextField:
    """Return the field that holds several rows, as `several` takes them."""
    return text_field(f"{name}.content", given.content) if isinstance(given, InParts) else text_field(name, given)


def of_messages(messages: Sequence[ChatMessage]) -> Content:
    """Return what a model of texts and pictures gets of a conversation: its texts, or its one picture."""
    parts = [
        (f"messages.{index}.content.{at}", part)
        for index, message in enumerate(messages)
        if isinstance(message.content, list)
        for at, part in enumerate(message.content)
        if isinstance(part, ImagePart)
    ]
    if not parts:
        return "".join(map(plain_text, messages))
    return _picture(parts, beside=any(plain_text(message).strip("\n") for message in messages))


def for_tokenizer(contents: Sequence[Content], route: Route) -> Mapping[str, Any]:
    """Return those fields of a `PrepareRowsRequest` that hold rows; raises InvalidRequest for what is not taken."""
    texts = tuple(content if isinstance(content, str) else None for content in contents)
    shown = (content for content in contents if isinstance(content, PictureContent))
    pictures = tuple(picture_of(content, route) for content in shown)
    if not pictures or route.pictures is None:
        return {"texts": texts}
    return {"texts": texts, "pictures": pictures, "picture_limits": content_parts.limits(route.pictures)}


def are_pictures(route: Route) -> bool:
    """Return whether a model takes pictures as rows of their own."""
    return route.pictures is not None and not route.pictures.among_texts


def picture_of(content: PictureContent, route: Route) -> Picture:
    """Return a row's picture for the tokenizer; raises InvalidRequest for what the model does not take."""
    if route.pictures is not None and route.pictures.among_texts:
        raise unsupported_by_model(content.name, "the model sees pictures in 'messages' alone, among their texts")
    picture = content_parts.picture(content.part, content.name, route)
    if content.fault is not None:
        raise content.fault
    return picture


def _together(parts: Sequence[tuple[str, Any]]) -> Content:
    pictures = [(name, part) for name, part in parts if isinstance(part, ImagePart)]
    texts = [part.text for _, part in parts if not isinstance(part, ImagePart)]
    return _picture(pictures, beside=any(texts)) if pictures else "\n".join(texts)


def _picture(parts: Sequence[tuple[str, ImagePart]], *, beside: bool) -> PictureContent:
    """Return the one picture of a row; `beside` tells whether a text stands beside it."""
    where, part = parts[0]
    name, fault = f"{where}.image_url", None
    if beside:
        fault = invalid(name, "this model takes a text or a picture, found both; send each by itself")
    elif len(parts) > 1:
        fault = content_parts.too_many(1, f"{parts[1][0]}.image_url")
    return PictureContent(part, name, fault)
