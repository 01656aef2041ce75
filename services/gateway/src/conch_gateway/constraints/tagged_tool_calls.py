"""Calls whose arguments stand between tags with their text unquoted, as formats that obey the tools' schemas; pure.

A parameter that may be any text is written as it is, up to its closing tag. The value of every other one is JSON, so a
text with a pattern, or of a few choices, has quotes. Every tool on offer is held to its schema, strict or not.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from conch_contracts import tool_call_marks as marks
from conch_contracts.openai.tools import Tool
from conch_gateway.constraints.closed_schemas import closed
from conch_gateway.constraints.structural_tags import ANY_TEXT, Format, fixed, in_order, matching, obeying, perhaps, tag
from conch_gateway.constraints.tool_call_grammar import NO_PARAMETERS
from conch_gateway.errors.bad_request import unsupported_by_model

_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "$schema"})
"""What a schema says for the reader alone."""
_DEFINITIONS = ("$defs", "definitions")
_UNDERSTOOD = _NOTES | {"type", "properties", "required", "additionalProperties", *_DEFINITIONS}
_NAME = re.compile(r"[\w.$-]+")
"""Names of parameters that can be told from the tags around them."""
_LINE_BREAK = matching(r"\n?")


class _Parameter(NamedTuple):
    name: str
    content: Format
    required: bool


def is_any_text(schema: object) -> bool:
    """Return whether a parameter's schema allows every text and nothing else."""
    return isinstance(schema, dict) and schema.get("type") == "string" and schema.keys() <= _NOTES | {"type"}


def qwen3_coder(tools: Sequence[Tool]) -> list[Format]:
    """Return the tags of the tools' calls as Qwen 3 Coder writes them; raises InvalidRequest."""

    def parameter(one: _Parameter) -> Format:
        return tag(f"{marks.PARAMETER}{one.name}>\n", one.content, f"\n{marks.PARAMETER_END}\n")

    return [
        tag(
            f"{marks.TOOL_CALL}\n{marks.FUNCTION}{tool.function.name}>\n",
            in_order(*_written(tool, parameter), fixed(marks.FUNCTION_END)),
            f"\n{marks.TOOL_CALL_END}",
        )
        for tool in tools
    ]


def glm(tools: Sequence[Tool]) -> list[Format]:
    """Return the tags of the tools' calls as GLM writes them, with and without line breaks; raises InvalidRequest."""

    def parameter(one: _Parameter) -> Format:
        value = tag(marks.ARG_VALUE, one.content, marks.ARG_VALUE_END)
        return tag(f"{marks.ARG_KEY}{one.name}{marks.ARG_KEY_END}", in_order(_LINE_BREAK, value, _LINE_BREAK), "")

    return [
        tag(
            marks.TOOL_CALL + tool.function.name, in_order(_LINE_BREAK, *_written(tool, parameter)), marks.TOOL_CALL_END
        )
        for tool in tools
    ]


def _written(tool: Tool, parameter: Callable[[_Parameter], Format]) -> Iterator[Format]:
    for one in _parameters(tool):
        written = parameter(one)
        yield written if one.required else perhaps(written)


def _parameters(tool: Tool) -> Iterator[_Parameter]:
    schema = closed(tool.function.parameters or NO_PARAMETERS)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if (
        not schema.keys() <= _UNDERSTOOD
        or not isinstance(properties, dict)
        or not isinstance(required, list)
        or not set(required) <= properties.keys()
        or not all(map(_NAME.fullmatch, properties))
        or not all(reference.startswith(("#/$defs/", "#/definitions/")) for reference in _references(schema))
    ):
        raise unsupported_by_model(
            "tools",
            f"the parameters of '{tool.function.name}' are more than a list of properties, to which arguments in this "
            "model's form of calls cannot be kept; leave out 'strict', or use 'tool_choice': 'required'",
        )
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    for name, one in properties.items():
        yield _Parameter(name, _content(one, definitions), name in required)


def _content(schema: object, definitions: Mapping[str, object]) -> Format:
    if is_any_text(schema):
        return ANY_TEXT
    return obeying({**(schema if isinstance(schema, dict) else {}), **definitions})


def _references(value: object) -> Iterator[str]:
    match value:
        case dict():
            reference = value.get("$ref")
            if isinstance(reference, str):
                yield reference
            for inner in value.values():
                yield from _references(inner)
        case list():
            for inner in value:
                yield from _references(inner)
