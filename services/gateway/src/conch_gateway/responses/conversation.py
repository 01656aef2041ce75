"""The items of a conversation: as a client sends them, as they are kept, and as the messages that a model gets; pure.

Kept items are plain JSON objects in the form of `StoredItem`: what was validated once is not validated again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never

from conch_contracts.openai.responses.items import (
    CallItem,
    CallOutputItem,
    InputImage,
    InputItem,
    InputMessage,
    MessagePart,
    OutputText,
    ReasoningItem,
)
from conch_gateway.requests import content_parts

Item = dict[str, Any]
"""A `StoredItem` as JSON."""
PREFIXES: Mapping[str, str] = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "reasoning": "rs_",
}


def kept(given: str | Sequence[InputItem], new_id: Callable[[], str]) -> list[Item]:
    """Return the input of a request as items that each have an id and a status."""
    if isinstance(given, str):
        given = [InputMessage(role="user", content=given)]
    return [{"id": item.id or PREFIXES[item.type] + new_id(), **_kept(item)} for item in given]


def messages(instructions: str | None, earlier: Sequence[Item], given: Sequence[Item] = ()) -> list[dict[str, Any]]:
    """Return the conversation as chat messages; `given` are the items of the request itself.

    What the assistant thought, said and called, item by item, are one message, as chat has it.
    """
    turns: list[dict[str, Any]] = []
    if instructions is not None:
        turns.append({"role": "system", "content": instructions})
    thought = ""
    for index, item in enumerate((*earlier, *given), -len(earlier)):
        match item["type"]:
            case "reasoning":
                thought += "".join(part["text"] for part in item.get("content") or item["summary"])
                continue
            case "function_call":
                _call(turns, item, thought)
            case "function_call_output":
                turns.append({"role": "tool", "tool_call_id": item["call_id"], "content": _output(item, index)})
            case _:
                content = _content(item["content"], f"input.{index}.content" if index >= 0 else None)
                turns.append({"role": item["role"], "content": content, **_thoughts(thought)})
        thought = ""
    return turns


def _kept(item: InputItem) -> Item:
    match item:
        case InputMessage():
            return {"type": "message", "role": item.role, "status": "completed", "content": _parts(item)}
        case CallOutputItem() if not isinstance(item.output, str):
            output = [_image(part) if isinstance(part, InputImage) else part.model_dump() for part in item.output]
            return {"type": item.type, "call_id": item.call_id, "output": output, "status": "completed"}
        case CallItem() | CallOutputItem() | ReasoningItem():
            return {**item.model_dump(mode="json", exclude={"id"}, exclude_none=True), "status": "completed"}
        case _:
            assert_never(item)


def _parts(message: InputMessage) -> list[Item]:
    """Return a message's parts; what the assistant said is output, in whatever form it comes back."""
    wrote = "output_text" if message.role == "assistant" else "input_text"
    if isinstance(message.content, str):
        return [_text(wrote, message.content)]
    return [_part(wrote, part) for part in message.content]


def _part(wrote: str, part: MessagePart) -> Item:
    if part.type == "refusal":
        return part.model_dump(mode="json")
    if part.type == "input_image":
        return _image(part)
    return _text("output_text" if isinstance(part, OutputText) else wrote, part.text)


def _text(kind: str, text: str) -> Item:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return {"type": kind, "text": text}


def _image(part: InputImage) -> Item:
    return {"type": part.type, "image_url": part.image_url, "detail": part.detail or "auto", "file_id": None}


def _content(parts: Iterable[Item], where: str | None) -> str | list[Item]:
    """Return the content of a message: one text, or parts for chat.

    `where` they are in the request; None for those of an earlier one.
    """
    found = [
        _chats(part, "previous_response_id" if where is None else f"{where}.{at}.image_url")
        for at, part in enumerate(parts)
    ]
    return found[0]["text"] if len(found) == 1 and found[0]["type"] == "text" else found or ""


def _chats(part: Item, name: str) -> Item:
    if part["type"] == "input_image":
        return content_parts.shown(part["image_url"], name)
    return {"type": "text", "text": str(part["refusal"] if part["type"] == "refusal" else part["text"])}


def _thoughts(thought: str) -> dict[str, str]:
    return {"reasoning_content": thought} if thought else {}


def _call(turns: list[dict[str, Any]], item: Item, thought: str) -> None:
    call = {
        "id": item["call_id"],
        "type": "function",
        "function": {"name": item["name"], "arguments": item["arguments"]},
    }
    last = turns[-1] if turns else {}
    if last.get("role") != "assistant" or thought:
        turns.append({"role": "assistant", "content": "", **_thoughts(thought), "tool_calls": [call]})
        return
    calls = last.setdefault("tool_calls", [])
    assert isinstance(calls, list)
    calls.append(call)


def _output(item: Item, index: int) -> str | list[Item]:
    """Return what a function gave back: one text, and the pictures behind it."""
    output = item["output"]
    if isinstance(output, str):
        return output
    text = "\n".join(part["text"] for part in output if part["type"] != "input_image")
    parts = _content(output, f"input.{index}.output" if index >= 0 else None)
    pictures = [part for part in parts if isinstance(part, dict) and part["type"] == "image_url"]
    return [{"type": "text", "text": text}, *pictures] if pictures else text
