"""What makes an engine write calls of tools: structural tags whose parts are the calls' arguments; pure.

The notation is xgrammar's, which vLLM and TensorRT-LLM read too. Each tool is a tag of its own, so that its schema
stays whole and references in it still point to where they did. Arguments that a tool does not name are of no use
to it, so its schema is closed, as xgrammar does by itself and other engines do not.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from conch_contracts.openai.tools import Tool
from conch_contracts.parsing import ToolCallParser
from conch_gateway.closed_schemas import closed
from conch_gateway.structural import Format, fixed

NO_PARAMETERS: dict[str, object] = {"type": "object", "properties": {}}
"""The schema of the arguments of a function that has none."""


class _Form(NamedTuple):
    """How calls are written around their arguments."""

    begin: str
    end: str
    separator: str
    key: str = "arguments"
    first: str = ""
    last: str = ""


_JSON_LIST = _Form("", "", ", ", key="parameters", first="[", last="]")
_FORMS: Mapping[ToolCallParser, _Form] = MappingProxyType(
    {
        ToolCallParser.HERMES: _Form("<tool_call>\n", "\n</tool_call>", "\n"),
        ToolCallParser.LLAMA3: _Form("", "", "; ", key="parameters"),
        ToolCallParser.JSON: _JSON_LIST,
    }
)

ENFORCED_FORMS: Mapping[ToolCallParser, ToolCallParser] = MappingProxyType(
    {parser: parser if parser in _FORMS else ToolCallParser.JSON for parser in ToolCallParser}
)
"""For each form that models use, the form in which a call is enforced."""


def calls_of(tools: Sequence[Tool], parser: ToolCallParser, *, only_one: bool) -> Format:
    """Return the format of calls of these tools, one or more, and nothing else."""
    form = _FORMS[ENFORCED_FORMS[parser]]
    written: Format = {
        "type": "tags_with_separator",
        "tags": [_tag(tool, form) for tool in tools],
        "separator": form.separator,
        "at_least_one": True,
        "stop_after_first": only_one,
    }
    if form.first:
        written = {"type": "sequence", "elements": [fixed(form.first), written, fixed(form.last)]}
    return written


def _tag(tool: Tool, form: _Form) -> Format:
    function = tool.function
    return {
        "type": "tag",
        "begin": f'{form.begin}{{"name": "{function.name}", "{form.key}": ',
        "content": {"type": "json_schema", "json_schema": closed(function.parameters or NO_PARAMETERS)},
        "end": f"}}{form.end}",
    }
