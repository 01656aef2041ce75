"""What messages say, in the form that a chat template takes it: one text each, or a list of parts.

A template that takes nothing but parts would get single letters of a text. It gets lists as vLLM makes them: of what
was one text a list of one part, of null an empty list, and only what a tool answers stays one text.

Most templates that go through parts ask before whether there is a text, and are at their best with one: some write the
list itself where the system speaks, or take no more than its first part. So they get a list only of what came in
several parts and is not the system's, and for null an empty text.
"""

from typing import Any, TypeAlias

from conch_contracts.messages.message import changed
from conch_contracts.messages.tokenization import ChatInput
from conch_tokenizer.text.content_format import AcceptedContent
from conch_tokenizer.text.control_tokens import ControlTokens

_Message: TypeAlias = dict[str, Any]
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


def _in_parts(message: _Message, lengths: tuple[int, ...], control: ControlTokens) -> _Message:
    content = message.get("content")
    if message.get("role") == "tool" or not isinstance(content, str | None):
        return message
    texts = [] if content is None else _texts(content, lengths, control)
    return {**message, "content": [{"type": "text", "text": text} for text in texts]}


def _as_it_came(message: _Message, lengths: tuple[int, ...], control: ControlTokens) -> _Message:
    if message.get("content") is None:
        return {**message, "content": ""}
    return _in_parts(message, lengths, control) if lengths and message.get("role") not in _OF_ONE_TEXT else message


def _texts(content: str, lengths: tuple[int, ...], control: ControlTokens) -> list[str]:
    """Return a message's parts; those that would make a control token together stay one text."""
    if not lengths:
        return [content]
    texts, begin = [], 0
    for length in lengths:
        texts.append(content[begin : begin + length])
        begin += length + 1
    return [content] if control.found_across(texts) else texts
