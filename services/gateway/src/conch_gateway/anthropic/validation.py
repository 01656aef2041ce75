"""From a JSON object to a typed request of the Messages API; pure.

Sampling, tools and formats are checked where chat's are; `chat_request.NAMES` is what errors from there call them here.
"""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, TypeVar

from conch_contracts.anthropic.content_blocks import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from conch_contracts.anthropic.request import MessagesRequest, PromptFields, ThinkingBudget, ToolChoice, Turn
from conch_contracts.openai.tools import MAX_CALLS
from conch_gateway.anthropic.conversation import blocks_of
from conch_gateway.errors.bad_request import conflicting, invalid, unsupported
from conch_gateway.requests.refusals.of_parts import OF_SOURCES, instead_of
from conch_gateway.requests.validation import Validated, typed
from conch_kit.anthropic_errors import UNSUPPORTED_THREAD
from conch_kit.errors import InvalidRequest

P = TypeVar("P", bound=PromptFields)

_NO_SERVER_TOOLS = "the client runs all tools, so no other results can be read"
_TEXT_DOCUMENTS = "only documents of text can be read: send the text with a source of the type 'text'"
_TEXT_SYSTEM = "the system prompt consists of text"
_NO_PICTURES_INSIDE = "a document is read as text: send its pictures as blocks of the type 'image', beside it"
_CLIENT_TOOLS = "the client runs all tools: send 'name', 'description' and 'input_schema'"

_READABLE = frozenset({"text", "image", "document", "search_result"})
_BLOCKS = _READABLE | {"tool_use", "tool_result", "thinking", "redacted_thinking"}
_TEXT_SOURCES = frozenset({"text", "content"})


def validate(kind: type[P], document: dict[str, object]) -> Validated[P]:
    """Return the request; raises InvalidRequest for what is wrong with it and for what cannot be done."""
    if document.get("thread") is not None:
        why = "The parameter 'thread' is not supported: send the whole conversation as 'messages'."
        raise InvalidRequest(why, param="thread", code=UNSUPPORTED_THREAD)
    _refuse_blocks(document)
    _refuse_tools(document.get("tools"))
    request, unknown = typed(kind, document)
    _check_turns(request)
    _check_tool_choice(request)
    thinking = request.thinking
    if (
        isinstance(request, MessagesRequest)
        and isinstance(thinking, ThinkingBudget)
        and thinking.budget_tokens >= request.max_tokens
    ):
        raise conflicting("thinking.budget_tokens", "must be below 'max_tokens'")
    return Validated(request, unknown)


def _refuse_blocks(document: Mapping[str, object]) -> None:
    """Raise for blocks of types that no model here can read."""
    _refuse_within(document.get("system"), "system", frozenset({"text"}), _TEXT_SYSTEM)
    for index, turn in enumerate(_objects(document.get("messages"))):
        content = turn.get("content")
        where = f"messages.{index}.content"
        _refuse_within(content, where, _BLOCKS)
        for at, block in enumerate(_objects(content)):
            if block.get("type") == "tool_result":
                _refuse_within(block.get("content"), f"{where}.{at}.content", _READABLE)


def _refuse_within(blocks: object, where: str, known: frozenset[str], why: str = "") -> None:
    for index, block in enumerate(_objects(blocks)):
        kind, source = block.get("type"), block.get("source")
        if isinstance(kind, str) and kind not in known:
            raise unsupported(f"{where}.{index}.type", why or _why(kind))
        form, inside = (source.get("type"), source.get("content")) if isinstance(source, dict) else (None, None)
        if not isinstance(form, str):
            continue
        if kind == "document" and form not in _TEXT_SOURCES:
            raise unsupported(f"{where}.{index}.source.type", _TEXT_DOCUMENTS)
        if kind == "document":
            _refuse_pictures(inside, f"{where}.{index}.source.content")
        if kind == "image" and form in OF_SOURCES:
            raise unsupported(f"{where}.{index}.source.type", OF_SOURCES[form])


def _refuse_pictures(blocks: object, where: str) -> None:
    """Raise for a picture in a document, which models here read as one text."""
    for index, block in enumerate(_objects(blocks)):
        if block.get("type") == "image":
            raise unsupported(f"{where}.{index}.type", _NO_PICTURES_INSIDE)


def _why(kind: str) -> str:
    """Return why a block of this type cannot be read."""
    return _NO_SERVER_TOOLS if kind.endswith(("_tool_use", "_tool_result")) else instead_of(kind, "image") or ""


def _refuse_tools(tools: object) -> None:
    for index, tool in enumerate(_objects(tools)):
        if isinstance(tool.get("type"), str) and tool["type"] != "custom":
            raise unsupported(f"tools.{index}.type", _CLIENT_TOOLS)
        if tool.get("allowed_callers") not in (None, [], ["direct"]):
            raise unsupported(f"tools.{index}.allowed_callers", "the model alone calls tools")


def _objects(given: object) -> Iterator[dict[str, Any]]:
    """Return a list's objects up to the first item that is none: the types refuse it, and there may be a million."""
    return takewhile(lambda item: isinstance(item, dict), given if isinstance(given, list) else ())


def _check_turns(request: PromptFields) -> None:
    """Raise for turns that make no conversation."""
    known: set[str] = set()
    calls, before = 0, ""
    for index, turn in enumerate(request.messages):
        blocks = blocks_of(turn)
        calls = sum(block.type == "tool_use" for block in blocks) + (calls if turn.role == before else 0)
        before = turn.role
        if calls > MAX_CALLS:
            raise invalid(f"messages.{index}.content", f"expected at most {MAX_CALLS} calls in one turn")
        if not blocks and turn.role != "assistant":
            raise invalid(f"messages.{index}.content", "expected a text or a block, found nothing")
        for at, block in enumerate(blocks if isinstance(turn.content, list) else ()):
            _check_place(turn, block, f"messages.{index}.content.{at}", known)
    if not any(map(blocks_of, request.messages)):
        raise invalid("messages", "expected a turn that says something")
    last = request.messages[-1]
    if last.role == "assistant" and any(isinstance(block, ToolUseBlock) for block in blocks_of(last)):
        param = f"messages.{len(request.messages) - 1}.content"
        raise invalid(param, "the results of its calls must follow, in a message with the role 'user'")


def _check_place(turn: Turn, block: Block, where: str, known: set[str]) -> None:
    """Raise for a block that stands in the wrong role's turn, or a result without a call; notes calls as `known`."""
    if isinstance(block, ToolUseBlock | ThinkingBlock | RedactedThinkingBlock) and turn.role != "assistant":
        raise invalid(f"{where}.type", f"only the assistant has it, found the role '{turn.role}'")
    if isinstance(block, ToolResultBlock | ImageBlock) and turn.role != "user":
        raise invalid(f"{where}.type", f"only the user has it, found the role '{turn.role}'")
    if turn.role == "system" and block.type != "text":
        raise invalid(f"{where}.type", "a system message consists of text")
    if isinstance(block, ToolUseBlock):
        known.add(block.id)
    if isinstance(block, ToolResultBlock) and block.tool_use_id not in known:
        raise invalid(f"{where}.tool_use_id", "no message before this one has a call with this id")


def _check_tool_choice(request: PromptFields) -> None:
    choice = request.tool_choice
    names = {tool.name for tool in request.tools or ()}
    if choice is not None and choice.type in ("any", "tool") and not names:
        raise conflicting("tool_choice", "needs 'tools'")
    if isinstance(choice, ToolChoice) and choice.name not in names:
        raise invalid("tool_choice.name", f"no tool has the name '{choice.name}'")
