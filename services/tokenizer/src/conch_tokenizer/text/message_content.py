"""What messages say, in the form that a chat template takes it: one text each, or a list of parts.

A template that takes nothing but parts would get single letters of a text. It gets lists as vLLM makes them: of what
was one text a list of one part, of null an empty list, and only what a tool answers stays one text.

Most templates that go through parts ask before whether there is a text, and are at their best with one: some write the
list itself where the system speaks, or take no more than its first part. So they get a list only of what came in
several parts and is not the system's, and for null an empty text.

A picture is a part that says no more than that it is one. Where there are but texts, a word stands for it in front of
them, as with vLLM.
"""

from typing import Any, TypeAlias

from conch_contracts.messages.message import changed
from conch_contracts.messages.tokenization import ChatInput
from conch_tokenizer.text.content_format import AcceptedContent
from conch_tokenizer.text.control_tokens import ControlTokens

_Message: TypeAlias = dict[str, Any]
_Part: TypeAlias = dict[str, str]
_Lengths: TypeAlias = tuple[int | None, ...]
_PICTURE = {"type": "image"}
_OF_ONE_TEXT = ("system", "developer")


def fit_messages(chat: ChatInput, accepted: AcceptedContent, control: ControlTokens) -> ChatInput:
    """Return a chat with each message's content as the template takes it."""
    if accepted is AcceptedContent.TEXTS:
        return chat
    one = _in_parts if accepted is AcceptedContent.PARTS else _as_it_came
    messages = [one(message, chat.part_lengths.get(index, ()), control) for index, message in enumerate(chat.messages)]
    if chat.continue_final_message and chat.messages[-1].get("content") is None:
        messages[-1] = chat.messages[-1]  # an empty text could be gone on with, null cannot
    return changed(chat, messages=tuple(messages))


def show_pictures_in_texts(chat: ChatInput, placeholder: str) -> ChatInput:
    """Return a chat with this word for each picture in front of its message's text."""
    messages = list(chat.messages)
    for index, lengths in chat.part_lengths.items():
        if (count := lengths.count(None)) and index < len(messages):
            content = messages[index].get("content")
            texts = [*[placeholder] * count, *([content] if content else [])]
            messages[index] = {**messages[index], "content": "\n".join(texts)}
    return changed(chat, messages=tuple(messages))


def _in_parts(message: _Message, lengths: _Lengths, control: ControlTokens) -> _Message:
    content = message.get("content")
    if not isinstance(content, str | None) or (message.get("role") == "tool" and None not in lengths):
        return message
    return {**message, "content": _parts(content, lengths, control)}


def _as_it_came(message: _Message, lengths: _Lengths, control: ControlTokens) -> _Message:
    if None in lengths:
        return _in_parts(message, lengths, control)
    if message.get("content") is None:
        return {**message, "content": ""}
    return _in_parts(message, lengths, control) if lengths and message.get("role") not in _OF_ONE_TEXT else message


def _parts(content: str | None, lengths: _Lengths, control: ControlTokens) -> list[_Part]:
    """Return a message's parts; texts that would make a control token together stay one, behind the pictures."""
    if not lengths:
        return [] if content is None else [_text(content)]
    parts, texts, begin = list[_Part](), list[str](), 0
    for length in lengths:
        if length is None:
            parts.append(_PICTURE)
            continue
        texts.append((content or "")[begin : begin + length])
        parts.append(_text(texts[-1]))
        begin += length + 1
    if not control.found_across(texts):
        return parts
    return [*[_PICTURE] * lengths.count(None), _text(content or "")]


def _text(text: str) -> _Part:
    return {"type": "text", "text": text}
