"""Reads values as Python writes them, while they come, and passes them on as JSON."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import orjson

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


def python_value(tape: TextBuffer, emit: Emit, depth: int = 0) -> Steps[None]:
    """Read one value; raises NoCall for what JSON has no word for."""
    first = yield from skip_space(tape)
    if depth > _MAX_DEPTH:
        raise NoCall
    if first in _CLOSING:
        yield from _nested(tape, emit, depth)
    elif first in "'\"":
        yield from _string(tape, emit)
    else:
        yield from _word(tape, emit)


def _nested(tape: TextBuffer, emit: Emit, depth: int) -> Steps[None]:
    """Read a list, a tuple or a dictionary."""
    opening = tape.take(1)
    closing, keyed = _CLOSING[opening], opening == "{"
    emit("{" if keyed else "[")
    glue = ""
    while (yield from skip_space(tape)) != closing:
        emit(glue)
        glue = ", "
        if keyed:
            if tape.text[0] not in "'\"":
                raise NoCall
            yield from _string(tape, emit)
            yield from skip_space(tape)
            yield from expect(tape, ":")
            emit(": ")
        yield from python_value(tape, emit, depth + 1)
        if (yield from skip_space(tape)) == ",":
            tape.take(1)
        elif tape.text[0] != closing:
            raise NoCall
    tape.take(1)
    emit("}" if keyed else "]")


def _string(tape: TextBuffer, emit: Emit) -> Steps[None]:
    quote = tape.take(1)
    emit('"')
    while True:
        found = _STOPS[quote].search(tape.text)
        if piece := tape.take(len(tape.text) if found is None else found.start()):
            emit(escaped(piece))
        if found is not None and found[0] == quote:
            break
        if found is not None:
            yield from _escape(tape, emit)
        elif tape.ended:
            raise NoCall
        else:
            yield
    tape.take(1)
    emit('"')


def _escape(tape: TextBuffer, emit: Emit) -> Steps[None]:
    """Read a backslash and what it stands for; before any other character it stands for itself."""
    yield from _at_least(tape, 2)
    kind = tape.text[1]
    digits = _CODES.get(kind)
    if digits is None:
        emit(escaped(_ESCAPES.get(kind, "\\" + kind)))
        tape.take(2)
        return
    yield from _at_least(tape, 2 + digits)
    emit(_character(tape.take(2 + digits)[2:]))


def _at_least(tape: TextBuffer, count: int) -> Steps[None]:
    while len(tape.text) < count:
        if tape.ended:
            raise NoCall
        yield


def _character(digits: str) -> str:
    """Return a character by its number, as it stands in a JSON string: there, too, one may take two halves."""
    try:
        code = int(digits, 16)
        return f"\\u{code:04x}" if code < 0x10000 else escaped(chr(code))
    except (ValueError, OverflowError):
        raise NoCall from None


def _word(tape: TextBuffer, emit: Emit) -> Steps[None]:
    """Read a number or a word, Python's or JSON's."""
    word = yield from scalar(tape)
    value = PYTHON_WORDS.get(word, word)
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        raise NoCall from None
    emit(value)
