"""Reads calls that are written as JSON, while they come: the arguments are passed on piece by piece.

What is read is what models write, so the order of the keys does not matter, unknown keys are skipped, and arguments
that are themselves a JSON text are unpacked. Anything that is not JSON ends the attempt at once.
"""

import re
from collections.abc import Callable, Container

import orjson

from conch_llm_worker.parsing.json_texts import json_string
from conch_llm_worker.parsing.text_buffer import NoCall, Steps, TextBuffer, attempt, expect, skip_space

_ARGUMENTS = ("arguments", "parameters")
_STRUCTURE = re.compile(r"""["{}\[\]]|[^\s\w:,.+-]""")
"""What matters between the strings of a value: a quote, a bracket, or what JSON has no place for."""
_IN_STRING = re.compile(r'["\\]')
_SCALAR = re.compile(r"[\w.+-]*")
_MAX_SCALAR = 4096
"""Characters of a number; what is longer is none, so that nothing is held back for ever."""

Emit = Callable[[str], object]


def call_object(buffer: TextBuffer, names: Container[str] | None = None) -> Steps[None]:
    """Read `{"name": …, "arguments": {…}}`; with `names`, only a call of one of these that has arguments is one."""
    name: str | None = None
    held: list[str] | None = None
    begun = False
    yield from expect(buffer, "{")
    while True:
        key = yield from _key(buffer)
        if key is None:
            break
        if key == "name" and name is None:
            name = yield from _text(buffer)
            if not name or (names is not None and name not in names):
                raise NoCall
        elif key in _ARGUMENTS and not begun and held is None:
            if name is None:
                held = []
                yield from _arguments(buffer, held.append)
            else:
                begun = True
                buffer.begin_call(name)
                yield from _arguments(buffer, buffer.add_arguments)
        else:
            yield from value(buffer, _ignore)
        if (yield from skip_space(buffer)) == ",":
            buffer.take(1)
    if name is None or (names is not None and not begun and held is None):
        raise NoCall
    if not begun:
        buffer.begin_call(name)
        buffer.add_arguments("{}" if held is None else "".join(held))
    buffer.end_call()


def call_list(buffer: TextBuffer, names: Container[str] | None = None) -> Steps[None]:
    """Read a JSON list of calls; raises NoCall at the first that is none."""
    yield from expect(buffer, "[")
    while (yield from skip_space(buffer)) == "{":
        yield from call_object(buffer, names)
        if (yield from skip_space(buffer)) == ",":
            buffer.take(1)
    yield from expect(buffer, "]")
    buffer.drop_taken()


def bare_arguments(buffer: TextBuffer, name: str, call_id: str | None = None) -> Steps[None]:
    """Read the arguments of a call whose name is known, and maybe its id."""
    if (yield from skip_space(buffer)) != "{":
        raise NoCall
    buffer.begin_call(name, call_id)
    yield from value(buffer, buffer.add_arguments)
    buffer.end_call()


def value(buffer: TextBuffer, emit: Emit) -> Steps[None]:
    """Read one JSON value and pass it on as it comes."""
    first = yield from skip_space(buffer)
    if first in "{[":
        yield from _nested(buffer, emit)
    elif first == '"':
        emit(orjson.dumps((yield from _text(buffer))).decode())
    else:
        emit((yield from scalar(buffer)))


def scalar(buffer: TextBuffer) -> Steps[str]:
    """Read a number or a word; what follows it decides that it is over."""
    while True:
        match = _SCALAR.match(buffer.text)
        end = 0 if match is None else match.end()
        if end > _MAX_SCALAR:
            raise NoCall
        if end < len(buffer.text):
            break
        if buffer.ended:
            raise NoCall
        yield
    if not end:
        raise NoCall
    return buffer.take(end)


def objects(buffer: TextBuffer, separator: re.Pattern[str], names: Container[str] | None) -> Steps[None]:
    """Read calls one behind the other, as far as there are any."""
    while (yield from attempt(buffer, call_object(buffer, names))):
        reach = yield from _separator(buffer, separator)
        if not reach:
            return
        buffer.drop(reach)


def _separator(buffer: TextBuffer, pattern: re.Pattern[str]) -> Steps[int]:
    """Return how far the separator before another object reaches; 0 when none follows."""
    while True:
        match = pattern.match(buffer.text)
        reach = 0 if match is None else match.end()
        if reach < len(buffer.text):
            return reach if buffer.text[reach] == "{" else 0
        if buffer.ended:
            return 0
        yield


def _key(buffer: TextBuffer) -> Steps[str | None]:
    """Read a key and its colon; None at the end of the object."""
    first = yield from skip_space(buffer)
    if first == "}":
        buffer.take(1)
        return None
    key = yield from _text(buffer)
    yield from skip_space(buffer)
    yield from expect(buffer, ":")
    return key


def _text(buffer: TextBuffer) -> Steps[str]:
    """Read a whole JSON string."""
    if (yield from skip_space(buffer)) != '"':
        raise NoCall
    buffer.take(1)
    parts = ['"']
    while True:
        text = buffer.text
        at = _after_string(text, 0)
        if at > 0:
            parts.append(buffer.take(at))
            return _decoded("".join(parts))
        parts.append(buffer.take(-at))
        if buffer.ended:
            raise NoCall
        yield


def _after_string(text: str, at: int) -> int:
    """Return the position behind the closing quote; else, negative, how far the text is certainly inside."""
    while (found := _IN_STRING.search(text, at)) is not None:
        if found[0] == '"':
            return found.end()
        if found.end() == len(text):
            return -found.start()
        at = found.end() + 1
    return -len(text)


def _nested(buffer: TextBuffer, emit: Emit) -> Steps[None]:
    """Read an object or a list."""
    depth, quoted = 0, False
    while True:
        text, at = buffer.text, 0
        while at < len(text):
            if quoted:
                end = _after_string(text, at)
                if end <= 0:
                    at = -end
                    break
                quoted, at = False, end
                continue
            found = _STRUCTURE.search(text, at)
            if found is None:
                at = len(text)
                break
            at = found.end()
            character = found[0]
            if character == '"':
                quoted = True
            elif character in "{[":
                depth += 1
            elif character in "}]":
                depth -= 1
                if depth == 0:
                    emit(buffer.take(at))
                    return
            else:
                emit(buffer.take(found.start()))
                raise NoCall
        emit(buffer.take(at))
        if buffer.ended:
            raise NoCall
        yield


def _arguments(buffer: TextBuffer, emit: Emit) -> Steps[None]:
    """Read arguments: an object, a JSON text that holds one, or null for none."""
    first = yield from skip_space(buffer)
    if first == "{":
        yield from _nested(buffer, emit)
    elif first == '"':
        emit((yield from _text(buffer)) or "{}")
    else:
        yield from expect(buffer, "null")
        emit("{}")


def _decoded(string: str) -> str:
    try:
        return json_string(string)
    except ValueError:
        raise NoCall from None


def _ignore(_: str) -> None:
    """Take a value that nobody wants."""
