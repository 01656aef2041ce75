"""How a worker takes the text of an answer apart: which part is thinking, and which part calls tools.

The gateway sends a worker the forms that matter for a request; a request that needs none sends nothing.
"""

import msgspec

from conch_contracts.messages.message import Message
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser


class Thinking(Message, frozen=True, kw_only=True):
    """What is to be done with an answer's thinking."""

    parser: ReasoningParser
    opened: bool = False
    """Whether the prompt ends inside the thinking, so that the answer begins there."""
    show: bool = True
    """Whether the client gets to see it; it is counted in any case."""


class Calls(Message, frozen=True, kw_only=True):
    """What is to be done with an answer's calls of tools."""

    parser: ToolCallParser
    names: tuple[str, ...]
    """The tools that were offered."""
    several: bool = True
    """Whether more than one call may come back."""
    demanded: bool = False
    """Whether the engine is made to call, so that there is no text beside the calls."""
    typed_parameters: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """For forms that write values without quotes: tool to parameter to its type in JSON Schema."""


class Parsing(Message, frozen=True, kw_only=True):
    """How the answer to one request is taken apart."""

    thinking: Thinking | None = None
    calls: Calls | None = None
