"""Tools as a chat request offers them, and their calls as messages carry them."""

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.json_schema import ObjectSchema

MAX_TOOLS = 512
"""Agents bring the tools of many servers: more than the 128 that OpenAI takes."""
MAX_CALLS = 128
MAX_ID_CHARS = 256
MAX_DESCRIPTION_CHARS = 65_536

ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
"""OpenAI takes 64 characters, Anthropic 128."""


class FunctionDefinition(ApiModel):
    """A function that the model may call."""

    name: ToolName
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] | None = None
    parameters: ObjectSchema | None = None
    """A JSON Schema of an object; none: no parameters."""
    strict: bool | None = None
    """Arguments of any call obey the schema; those of a call that `tool_choice` demands do so in either case."""


class Tool(ApiModel):
    """A tool; only functions are known."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(ApiModel):
    """Which function."""

    name: ToolName


class NamedToolChoice(ApiModel):
    """The demand for a call of one tool."""

    type: Literal["function"]
    function: FunctionName


class AllowedFunction(ApiModel):
    """A tool that may be called."""

    type: Literal["function"]
    function: FunctionName


class AllowedFunctions(ApiModel):
    """The tools that may be called, and whether one must."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedFunction], Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedToolsChoice(ApiModel):
    """The bound on which tools of `tools` may be called in this turn."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedFunctions


def _as_text(arguments: object) -> object:
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments


Arguments = Annotated[str, BeforeValidator(_as_text)]
"""The arguments of a call as JSON in a text; an object becomes that."""


class FunctionCall(ApiModel):
    """A call of a function."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    arguments: Arguments
    """JSON, as the model wrote it; in a request an object is taken too."""


class ToolCall(ApiModel):
    """A call of a tool."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    type: Literal["function"] = "function"
    function: FunctionCall


class FunctionCallDelta(ApiModel):
    """What a frame adds to a call: its name first, then pieces of its arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(ApiModel):
    """A call's part of a frame."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCallDelta
