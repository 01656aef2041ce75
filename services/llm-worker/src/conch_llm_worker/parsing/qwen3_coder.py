"""Calls as Qwen 3 Coder writes them: each parameter in tags of its own, and its value without quotes.

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

The arguments become JSON on the way: a value is text unless the tool's schema gives the parameter another type.
"""

from collections.abc import Callable

import orjson

from conch_contracts.parsing import Calls
from conch_llm_worker.parsing.tape import (
    NoCall,
    Steps,
    Tape,
    attempt,
    expect,
    skip_space,
    text_until,
    until,
    word_ahead,
)
from conch_llm_worker.partials import Words

_FUNCTION, _PARAMETER = "<function=", "<parameter="
_PARAMETER_END, _FUNCTION_END, _CALL_END = "</parameter>", "</function>", "</tool_call>"
_MARKS = Words(("<tool_call>", _FUNCTION))
_VALUE_ENDS = Words((_PARAMETER_END, _FUNCTION_END))
_WORDS = {"True": b"true", "False": b"false", "None": b"null"}
"""How Python programs write what JSON writes otherwise; models mix them up."""


def qwen3_coder(tape: Tape, calls: Calls) -> Steps[None]:
    """Read calls in tags."""
    while (mark := (yield from text_until(tape, _MARKS))) is not None:
        yield from attempt(tape, _call(tape, calls, named=mark == _FUNCTION))


def _call(tape: Tape, calls: Calls, *, named: bool) -> Steps[None]:
    if not named:
        yield from skip_space(tape)
        yield from expect(tape, _FUNCTION)
    name = (yield from until(tape, ">")).strip()
    if not name or "\n" in name:
        raise NoCall
    tape.begin_call(name)
    types = calls.typed_parameters.get(name, {})
    glue = "{"
    while (yield from word_ahead(tape, _PARAMETER)):
        yield from skip_space(tape)
        yield from expect(tape, _PARAMETER)
        key = (yield from until(tape, ">")).strip()
        tape.add_arguments(glue + orjson.dumps(key).decode() + ": ")
        yield from _value(tape, types.get(key, "string"))
        glue = ", "
    yield from skip_space(tape)
    yield from expect(tape, _FUNCTION_END)
    tape.add_arguments("{}" if glue == "{" else "}")
    tape.end_call()
    tape.drop((yield from word_ahead(tape, _CALL_END)))


def _value(tape: Tape, kind: str) -> Steps[None]:
    """Read a value up to its closing tag; the line breaks next to the tags are not part of it."""
    while not tape.text and not tape.ended:
        yield
    if tape.text.startswith("\n"):
        tape.take(1)
    if kind == "string":
        tape.add_arguments('"')
        yield from _pieces(tape, lambda piece: tape.add_arguments(_escaped(piece)))
        tape.add_arguments('"')
    else:
        parts: list[str] = []
        yield from _pieces(tape, parts.append)
        tape.add_arguments(_converted("".join(parts)))


def _pieces(tape: Tape, emit: Callable[[str], object]) -> Steps[None]:
    """Pass on the text before the closing tag as it comes, but for one line break right before the tag."""
    while True:
        found = _VALUE_ENDS.first_in(tape.text)
        end = found[0] if found is not None else _VALUE_ENDS.certain(tape.text)
        if found is None and tape.text[:end].endswith("\n"):
            end -= 1
        text = tape.take(end)
        if found is not None:
            emit(text.removesuffix("\n"))
            if found[1] == _PARAMETER_END:
                tape.take(len(_PARAMETER_END))
            return
        emit(text)
        if tape.ended:
            raise NoCall
        yield


def _escaped(piece: str) -> str:
    return orjson.dumps(piece).decode()[1:-1]


def _converted(text: str) -> str:
    """Return a value as JSON; what is not of its type stays text, for the tool to complain about."""
    stripped = text.strip()
    data = _WORDS.get(stripped, stripped.encode())
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()
    return data.decode()
