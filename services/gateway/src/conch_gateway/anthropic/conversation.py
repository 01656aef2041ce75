"""The turns of a conversation as the messages that chat has for them; pure.

A turn of the user that holds results of tools becomes a message for each of these, before what else the user says. What
the assistant thought, said and called in one turn is one message.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from conch_contracts.anthropic.content_blocks import (
    Base64Source,
    Block,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from conch_contracts.anthropic.request import Turn
from conch_contracts.openai.chat import MAX_PARTS
from conch_gateway.requests import content_parts

ChatMessage = dict[str, Any]
ChatPart = dict[str, Any]
Placed = tuple[str, Block]
"""A block, behind its place in the request."""

_BILLING = "x-anthropic-billing-header"
"""How the block begins by which Claude Code tells its maker of itself; it changes with each request, so that no two of
them would share a prompt."""


def messages(system: str | Sequence[TextBlock] | None, turns: Iterable[Turn]) -> list[ChatMessage]:
    """Return the conversation; system turns that come first are one message with the system prompt."""
    by_role = groupby(enumerate(turns), key=lambda numbered: numbered[1].role)
    joined = [(role, [placed for index, turn in group for placed in _placed(turn, index)]) for role, group in by_role]
    first = [TextBlock(type="text", text=system)] if isinstance(system, str) else list(system or ())
    if joined and joined[0][0] == "system":
        first += [block for _, block in joined.pop(0)[1] if isinstance(block, TextBlock)]
    told = [("", block) for block in first if not block.text.startswith(_BILLING)]
    found: list[ChatMessage] = [{"role": "system", "content": _content(told)}] if told else []
    for role, blocks in joined:
        if role == "assistant":
            found.append(_assistant(blocks))
        else:
            found += [_result(where, block) for where, block in blocks if isinstance(block, ToolResultBlock)]
            rest = [(where, block) for where, block in blocks if not isinstance(block, ToolResultBlock)]
            found += [{"role": role, "content": _content(rest)}] if rest else []
    return found


def blocks_of(turn: Turn) -> Sequence[Block]:
    """Return what a turn consists of; a text is one block, and an empty one is none."""
    if isinstance(turn.content, str):
        return [TextBlock(type="text", text=turn.content)] if turn.content else []
    return turn.content


def _placed(turn: Turn, index: int) -> list[Placed]:
    return [(f"messages.{index}.content.{at}", block) for at, block in enumerate(blocks_of(turn))]


def _assistant(blocks: Sequence[Placed]) -> ChatMessage:
    thought = "".join(block.thinking for _, block in blocks if isinstance(block, ThinkingBlock))
    calls = [_call(block) for _, block in blocks if isinstance(block, ToolUseBlock)]
    message: ChatMessage = {"role": "assistant", "content": _content(blocks)}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: ToolUseBlock) -> dict[str, object]:
    arguments = json.dumps(block.input, ensure_ascii=False)
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _result(where: str, block: ToolResultBlock) -> ChatMessage:
    given = [TextBlock(type="text", text=block.content)] if isinstance(block.content, str) else block.content or ()
    parts = _parts((f"{where}.content.{at}", part) for at, part in enumerate(given))
    content = "\n".join(part["text"] for part in parts if part["type"] == "text")
    text = f"Error: {content}" if block.is_error else content
    pictures = [part for part in parts if part["type"] != "text"]
    shown = [{"type": "text", "text": text}, *pictures] if pictures else text
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": shown}


def _content(blocks: Iterable[Placed]) -> str | list[ChatPart]:
    parts = _parts(blocks)
    if len(parts) > MAX_PARTS:  # more than a message of chat may have, and nothing that a model could tell apart
        parts = [part for kind, run in groupby(parts, key=lambda part: part["type"]) for part in _joined(kind, run)]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts or ""


def _joined(kind: str, run: Iterable[ChatPart]) -> Iterable[ChatPart]:
    return [_text("\n".join(part["text"] for part in run))] if kind == "text" else run


def _parts(blocks: Iterable[Placed]) -> list[ChatPart]:
    """Return what the model reads and sees of some blocks; thinking, calls and results have places of their own."""
    found = []
    for where, block in blocks:
        match block:
            case TextBlock(text=text):
                found.append(_text(text))
            case ImageBlock():
                found.append(content_parts.shown(_url(block.source), f"{where}.source"))
            case DocumentBlock():
                text = "\n".join(part for part in (block.title, block.context, _text_of(block)) if part)
                found.append(_text(text))
            case SearchResultBlock():
                found.append(_text("\n".join([block.title, block.source, *(part.text for part in block.content)])))
            case ThinkingBlock() | RedactedThinkingBlock() | ToolUseBlock() | ToolResultBlock():
                continue
    return found


def _text(words: str) -> ChatPart:
    return {"type": "text", "text": words}


def _url(source: Base64Source | UrlSource) -> str:
    return source.url if isinstance(source, UrlSource) else f"data:{source.media_type};base64,{source.data}"


def _text_of(document: DocumentBlock) -> str:
    source = document.source
    if source.type == "text":
        return source.data
    return source.content if isinstance(source.content, str) else "\n".join(part.text for part in source.content)
