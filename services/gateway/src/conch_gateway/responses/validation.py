"""From a JSON object to a typed request of the Responses API; pure.

Sampling, tools and formats are checked where chat's are. What this API names differently is named so in errors too.
"""

import re
from collections.abc import Iterable, Mapping

from conch_contracts import capabilities
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.responses.items import CallItem, CallOutputItem, ReasoningItem
from conch_contracts.openai.responses.response import AllowedTools, ResponsesRequest
from conch_contracts.openai.sampling import is_on
from conch_gateway.errors.bad_request import conflicting, invalid, missing, unsupported
from conch_gateway.errors.chat_names import ChatNames
from conch_gateway.requests import chat_messages
from conch_gateway.requests.refusals.of_parts import NO_FILE_ID, instead_of
from conch_gateway.requests.unsupported_parameters import REFUSALS
from conch_gateway.requests.validation import Validated, typed
from conch_gateway.responses.conversation import Item
from conch_kit.errors import InvalidRequest

ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})
PARTS = frozenset({"input_text", "input_image", "output_text", "refusal", "reasoning_text", "summary_text"})
TOOLS = frozenset({"function"})
CHATS_OWN = ChatCompletionRequest.model_fields.keys() - ResponsesRequest.model_fields.keys()
"""Parameters of chat that this API does not have."""
HARMLESS: Mapping[str, tuple[object, ...]] = {
    **capabilities.HARMLESS,
    **{name: refusal.harmless for name, refusal in REFUSALS.items() if refusal.harmless},
    "add_special_tokens": (False,),
    "best_of": (1,),
    "echo": (False,),
    "n": (1,),
    "response_format": ({"type": "text"},),
}
"""Values of chat's own parameters, beside null, that change nothing: some clients send them to either API."""
NAMES = ChatNames(
    (
        (re.compile(r"^(tools\.\d+|tool_choice)\.(?:function|allowed_tools)\b"), r"\1"),
        (re.compile(r"^response_format(?:\.json_schema)?\b"), "text.format"),
        (re.compile(r"^messages\b.*"), "input"),  # a message's number is not that of an item: earlier turns come first
        (re.compile(r"^max_completion_tokens\b"), "max_output_tokens"),
        (re.compile(r"^reasoning_effort\b"), "reasoning.effort"),
    )
)
"""What this API calls the parameters of chat; it leaves out some members."""


def validate(document: dict[str, object]) -> Validated[ResponsesRequest]:
    """Return the request; raises InvalidRequest for what is wrong with it and for what cannot be done."""
    for name in sorted(CHATS_OWN):
        if not capabilities.is_harmless(document.get(name), HARMLESS.get(name, ())):
            raise unsupported(name)
    if document.get("input") is None:
        raise missing("input")
    _refuse_types(document["input"])
    _refuse_tools(document.get("tools"))
    with NAMES.used():  # the name of a type may stand in the path, as `function` does in chat's
        request, unknown = typed(ResponsesRequest, document)
    _refuse_values(request)
    return Validated(request, unknown)


def check_conversation(request: ResponsesRequest, earlier: Iterable[Item]) -> None:
    """Raise InvalidRequest for items that make no conversation with those that come before them."""
    known, said = set(), request.instructions is not None
    for item in earlier:
        said = said or item["type"] != "reasoning"
        if item["type"] == "function_call":
            known.add(item["call_id"])
    for index, given in enumerate(() if isinstance(request.input, str) else request.input):
        said = said or not isinstance(given, ReasoningItem)
        if isinstance(given, CallItem):
            known.add(given.call_id)
        if isinstance(given, CallOutputItem) and given.call_id not in known:
            raise invalid(f"input.{index}.call_id", "no item before this one is a call with this id")
    if not said and not isinstance(request.input, str):
        raise invalid("input", "expected an item beside reasoning, such as a message")


def _refuse_types(items: object) -> None:
    """Raise for items, and parts of messages, of types that no model here can take."""
    if not isinstance(items, list):
        return
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            param = f"input.{index}"
            raise InvalidRequest(f"'{param}' must be an object.", param=param, code="invalid_value")
        if _is_other(item.get("type"), ITEMS):
            raise unsupported(f"input.{index}.type")
        for name in ("content", "output"):
            parts = item.get(name)
            for at, part in enumerate(parts if isinstance(parts, list) else ()):
                if isinstance(part, dict):
                    _refuse_part(part, f"input.{index}.{name}.{at}")


def _refuse_part(part: Mapping[str, object], where: str) -> None:
    kind = part.get("type")
    if isinstance(kind, str) and kind not in PARTS:
        raise unsupported(f"{where}.type", instead_of(kind, "input_image") or "")
    if kind == "input_image" and part.get("file_id") is not None:
        raise unsupported(f"{where}.file_id", NO_FILE_ID)


def _refuse_tools(tools: object) -> None:
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict) and _is_other(tool.get("type"), TOOLS):
            raise unsupported(f"tools.{index}.type")


def _is_other(kind: object, known: frozenset[str]) -> bool:
    """Tell whether this names a type, and none of these; what is no name is for the schema to refuse."""
    return isinstance(kind, str) and kind not in known


def _refuse_unknown_tools(request: ResponsesRequest) -> None:
    names = {tool.name for tool in request.tools or ()}
    allowed = request.tool_choice.tools if isinstance(request.tool_choice, AllowedTools) else ()
    for index, tool in enumerate(allowed):
        if tool.name not in names:
            raise invalid(f"tool_choice.tools.{index}.name", f"no tool has the name '{tool.name}'")


def _refuse_deep_arguments(request: ResponsesRequest) -> None:
    for index, item in enumerate(() if isinstance(request.input, str) else request.input):
        if isinstance(item, CallItem):
            chat_messages.check_arguments(item.arguments, f"input.{index}.arguments")


def _refuse_values(request: ResponsesRequest) -> None:
    _refuse_unknown_tools(request)
    _refuse_deep_arguments(request)
    options, reasoning = request.stream_options, request.reasoning
    if options is not None and not is_on(request.stream):
        raise conflicting("stream_options", "needs 'stream': true")
    if is_on(request.background):
        if request.store is False:
            raise conflicting("background", "needs 'store'")
        if is_on(request.stream):
            raise conflicting("background", "cannot be used with 'stream'")
    refused = {
        "truncation": request.truncation == "auto",
        "stream_options.include_obfuscation": options is not None and options.include_obfuscation,
        "reasoning.summary": reasoning is not None and reasoning.summary in ("concise", "detailed"),
    }
    for name, asked in refused.items():
        if asked:
            raise unsupported(name)
