"""Values that models write between tags and without quotes, as JSON.

A value is text, which is passed on while it comes, unless the tool's schema gives the parameter another type: then it
is read to its end, and what is not of that type stays text, for the tool to complain about.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import orjson

from conch_llm_worker.parsing.json_texts import json_value
from conch_llm_worker.parsing.text_buffer import NoCall, Steps, TextBuffer
from conch_llm_worker.text.partial_words import Words

PYTHON_WORDS: Mapping[str, str] = MappingProxyType({"True": "true", "False": "false", "None": "null"})
"""How Python programs write what JSON writes otherwise; models mix them up."""


class Tags(NamedTuple):
    """What stands around values."""

    ends: Words
    """What ends a value; each but the closing tag is left to be read."""
    close: str
    padded: bool
    """Whether a line break next to a tag is not part of the value."""


def tagged_value(buffer: TextBuffer, tags: Tags, kind: str) -> Steps[None]:
    """Read a value of a type of JSON Schema and its closing tag, and pass it on as part of a call's arguments."""
    if tags.padded:
        while not buffer.text and not buffer.ended:
            yield
        if buffer.text.startswith("\n"):
            buffer.take(1)
    if kind == "string":
        buffer.add_arguments('"')
        yield from _pieces(buffer, tags, lambda piece: buffer.add_arguments(escaped(piece)))
        buffer.add_arguments('"')
    else:
        parts: list[str] = []
        yield from _pieces(buffer, tags, parts.append)
        buffer.add_arguments(_converted("".join(parts)))


def escaped(piece: str) -> str:
    """Return a piece of a text as it stands in a JSON string."""
    return orjson.dumps(piece).decode()[1:-1]


def _pieces(buffer: TextBuffer, tags: Tags, emit: Callable[[str], object]) -> Steps[None]:
    """Pass on the text before the closing tag as it comes, but for the line break that pads it."""
    while True:
        found = tags.ends.first_in(buffer.text)
        end = found[0] if found is not None else tags.ends.certain(buffer.text)
        if tags.padded and found is None and buffer.text[:end].endswith("\n"):
            end -= 1
        text = buffer.take(end)
        if found is not None:
            emit(text.removesuffix("\n") if tags.padded else text)
            if found[1] == tags.close:
                buffer.take(len(tags.close))
            return
        emit(text)
        if buffer.ended:
            raise NoCall
        yield


def _converted(text: str) -> str:
    stripped = text.strip()
    value = PYTHON_WORDS.get(stripped, stripped)
    try:
        json_value(value)
    except ValueError:
        return orjson.dumps(text).decode()
    return value
