"""Reads values as Python writes them, while they come, and passes them on as JSON."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from conch_llm_worker.parsing.json_texts import json_value
from conch_llm_worker.parsing.text_buffer import NoCall, Steps, TextBuffer, expect, skip_space
from conch_llm_worker.parsing.tool_calls.json_calls import Emit, scalar
from conch_llm_worker.parsing.tool_calls.tagged_values import PYTHON_WORDS, escaped

_MAX_DEPTH = 32
_ESCAPES: Mapping[str, str] = MappingProxyType(
    {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
    | {character: character for character in "\\'\""}
)
_CODES: Mapping[str, int] = MappingProxyType({"x": 2, "u": 4, "U": 8})
"""Escapes of a character's number, and how many digits that has."""
_STOPS: Mapping[str, re.Pattern[str]] = MappingProxyType({"'": re.compile(r"['\\]"), '"': re.compile(r'["\\]')})
_CLOSING: Mapping[str, str] = MappingProxyType({"[": "]", "(": ")", "{": "}"})


def python_value(buffer: TextBuffer, emit: Emit, depth: int = 0) -> Steps[None]:
    """Read one value; raises NoCall for what JSON has no word for."""
    first = yield from skip_space(buffer)
    if depth > _MAX_DEPTH:
        raise NoCall
    if first in _CLOSING:
        yield from _nested(buffer, emit, depth)
    elif first in "'\"":
        yield from _string(buffer, emit)
    else:
        yield from _word(buffer, emit)


def _nested(buffer: TextBuffer, emit: Emit, depth: int) -> Steps[None]:
    """Read a list, a tuple or a dictionary."""
    opening = buffer.take(1)
    closing, keyed = _CLOSING[opening], opening == "{"
    emit("{" if keyed else "[")
    glue = ""
    while (yield from skip_space(buffer)) != closing:
        emit(glue)
        glue = ", "
        if keyed:
            if buffer.text[0] not in "'\"":
                raise NoCall
            yield from _string(buffer, emit)
            yield from skip_space(buffer)
            yield from expect(buffer, ":")
            emit(": ")
        yield from python_value(buffer, emit, depth + 1)
        if (yield from skip_space(buffer)) == ",":
            buffer.take(1)
        elif buffer.text[0] != closing:
            raise NoCall
    buffer.take(1)
    emit("}" if keyed else "]")


def _string(buffer: TextBuffer, emit: Emit) -> Steps[None]:
    quote = buffer.take(1)
    emit('"')
    while True:
        found = _STOPS[quote].search(buffer.text)
        if piece := buffer.take(len(buffer.text) if found is None else found.start()):
            emit(escaped(piece))
        if found is not None and found[0] == quote:
            break
        if found is not None:
            yield from _escape(buffer, emit)
        elif buffer.ended:
            raise NoCall
        else:
            yield
    buffer.take(1)
    emit('"')


def _escape(buffer: TextBuffer, emit: Emit) -> Steps[None]:
    """Read a backslash and what it stands for; before any other character it stands for itself."""
    yield from _at_least(buffer, 2)
    kind = buffer.text[1]
    digits = _CODES.get(kind)
    if digits is None:
        emit(escaped(_ESCAPES.get(kind, "\\" + kind)))
        buffer.take(2)
        return
    yield from _at_least(buffer, 2 + digits)
    emit(_character(buffer.take(2 + digits)[2:]))


def _at_least(buffer: TextBuffer, count: int) -> Steps[None]:
    while len(buffer.text) < count:
        if buffer.ended:
            raise NoCall
        yield


def _character(digits: str) -> str:
    """Return a character by its number, as it stands in a JSON string: there, too, one may take two halves."""
    try:
        code = int(digits, 16)
        return f"\\u{code:04x}" if code < 0x10000 else escaped(chr(code))
    except (ValueError, OverflowError):
        raise NoCall from None


def _word(buffer: TextBuffer, emit: Emit) -> Steps[None]:
    """Read a number or a word, Python's or JSON's."""
    word = yield from scalar(buffer)
    value = PYTHON_WORDS.get(word, word)
    try:
        json_value(value)
    except ValueError:
        raise NoCall from None
    emit(value)
