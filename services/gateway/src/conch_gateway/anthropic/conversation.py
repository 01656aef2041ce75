"""The turns of a conversation as the messages that chat has for them; pure.

A turn of the user that holds results of tools becomes a message for each of these, before what else the user says. What
the assistant thought, said and called in one turn is one message.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from conch_contracts.anthropic.content_blocks import (
    Block,
    DocumentBlock,
    RedactedThinkingBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from conch_contracts.anthropic.request import Turn
from conch_contracts.openai.chat import MAX_PARTS

ChatMessage = dict[str, Any]

_BILLING = "x-anthropic-billing-header"
"""How the block begins by which Claude Code tells its maker of itself; it changes with each request, so that no two of
them would share a prompt."""


def messages(system: str | Sequence[TextBlock] | None, turns: Iterable[Turn]) -> list[ChatMessage]:
    """Return the conversation; system turns that come first are one message with the system prompt."""
    joined = [(role, [block for turn in group for block in blocks_of(turn)]) for role, group in _by_role(turns)]
    first = [TextBlock(type="text", text=system)] if isinstance(system, str) else list(system or ())
    if joined and joined[0][0] == "system":
        first += [block for block in joined.pop(0)[1] if isinstance(block, TextBlock)]
    told = [block for block in first if not block.text.startswith(_BILLING)]
    found: list[ChatMessage] = [{"role": "system", "content": _content(told)}] if told else []
    for role, blocks in joined:
        if role == "assistant":
            found.append(_assistant(blocks))
        else:
            found += map(_result, (block for block in blocks if isinstance(block, ToolResultBlock)))
            rest = [block for block in blocks if not isinstance(block, ToolResultBlock)]
            found += [{"role": role, "content": _content(rest)}] if rest else []
    return found


def blocks_of(turn: Turn) -> Sequence[Block]:
    """Return what a turn consists of; a text is one block, and an empty one is none."""
    if isinstance(turn.content, str):
        return [TextBlock(type="text", text=turn.content)] if turn.content else []
    return turn.content


def _by_role(turns: Iterable[Turn]) -> Iterable[tuple[str, Iterable[Turn]]]:
    return groupby(turns, key=lambda turn: turn.role)


def _assistant(blocks: Sequence[Block]) -> ChatMessage:
    thought = "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    calls = [_call(block) for block in blocks if isinstance(block, ToolUseBlock)]
    message: ChatMessage = {"role": "assistant", "content": _content(blocks)}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: ToolUseBlock) -> dict[str, object]:
    arguments = json.dumps(block.input, ensure_ascii=False)
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _result(block: ToolResultBlock) -> ChatMessage:
    content = block.content if isinstance(block.content, str) else "\n".join(_texts(block.content or ()))
    text = f"Error: {content}" if block.is_error else content
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": text}


def _content(blocks: Iterable[Block]) -> str | list[dict[str, str]]:
    texts = _texts(blocks)
    if len(texts) > MAX_PARTS:  # more than a message of chat may have, and nothing that a model could tell apart
        texts = ["\n".join(texts)]
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts] or ""


def _texts(blocks: Iterable[Block]) -> list[str]:
    """Return what the model reads of some blocks; thinking, calls and results have places of their own."""
    found = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                found.append(text)
            case DocumentBlock():
                found.append("\n".join(part for part in (block.title, block.context, _text_of(block)) if part))
            case SearchResultBlock():
                found.append("\n".join([block.title, block.source, *(part.text for part in block.content)]))
            case ThinkingBlock() | RedactedThinkingBlock() | ToolUseBlock() | ToolResultBlock():
                continue
    return found


def _text_of(document: DocumentBlock) -> str:
    source = document.source
    if source.type == "text":
        return source.data
    return source.content if isinstance(source.content, str) else "\n".join(part.text for part in source.content)
