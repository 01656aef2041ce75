"""What makes an engine write calls of tools: structural tags whose parts are the calls' arguments; pure.

The notation is xgrammar's, which vLLM and TensorRT-LLM read too. Each tool is a tag of its own, so that its schema
stays whole and references in it still point to where they did. Arguments that a tool does not name are of no use
to it, so its schema is closed, as xgrammar does by itself and other engines do not.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from conch_contracts import tool_call_marks as marks
from conch_contracts.openai.tools import Tool
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.constraints.closed_schemas import closed
from conch_gateway.constraints.structural_tags import Format, fixed, in_order, obeying, separated, tag

NO_PARAMETERS: dict[str, object] = {"type": "object", "properties": {}}
"""The schema of the arguments of a function that has none."""


class Form(NamedTuple):
    """How calls are written around their arguments."""

    begin: str
    end: str
    separator: str
    key: str = "arguments"
    first: str = ""
    last: str = ""


JSON_LIST = Form("", "", ", ", key="parameters", first="[", last="]")
HERMES = Form(f"{marks.TOOL_CALL}\n", f"\n{marks.TOOL_CALL_END}", "\n")
_FORMS: Mapping[ToolCallParser, Form] = MappingProxyType(
    {
        ToolCallParser.HERMES: HERMES,
        ToolCallParser.LLAMA3: Form("", "", "; ", key="parameters"),
        ToolCallParser.JSON: JSON_LIST,
    }
)

ENFORCED_FORMS: Mapping[ToolCallParser, ToolCallParser] = MappingProxyType(
    {parser: parser if parser in _FORMS else ToolCallParser.JSON for parser in ToolCallParser}
)
"""For each form that models use, the form in which a call is enforced."""


def calls_of(tools: Sequence[Tool], parser: ToolCallParser, *, only_one: bool) -> Format:
    """Return the format of calls of these tools, one or more, and nothing else."""
    return calls_in(_FORMS[ENFORCED_FORMS[parser]], tools, only_one=only_one)


def calls_in(form: Form, tools: Sequence[Tool], *, only_one: bool) -> Format:
    """Return the same for a form that is given."""
    written = separated([call_in(form, tool) for tool in tools], form.separator, only_one=only_one)
    return in_order(fixed(form.first), written, fixed(form.last)) if form.first else written


def call_in(form: Form, tool: Tool) -> Format:
    """Return the format of one call."""
    return tag(f'{form.begin}{{"name": "{tool.function.name}", "{form.key}": ', arguments_of(tool), f"}}{form.end}")


def arguments_of(tool: Tool) -> Format:
    """Return the format of a call's arguments."""
    return obeying(closed({**(tool.function.parameters or NO_PARAMETERS), "type": "object"}))
