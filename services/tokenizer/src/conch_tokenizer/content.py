"""What messages say, in the form that a chat template takes it: one text each, or a list of parts.

A template that goes through parts would get single letters of a text. It gets lists as vLLM makes them: of what was one
text a list of one part, of null an empty list, and only what a tool answers stays one text.
"""

from functools import lru_cache
from typing import Any

from jinja2 import nodes
from transformers.utils.chat_template_utils import _compile_jinja_template

from conch_contracts.records import ContentFormat
from conch_contracts.tokenization import ChatInput
from conch_tokenizer.control_tokens import ControlTokens
from conch_tokenizer.part_loops import goes_through_parts

_KNOWN = 32


@lru_cache(maxsize=_KNOWN)
def format_of(template: str) -> ContentFormat:
    """Return what a template takes; raises what compiling it raises, which is what rendering would raise."""
    tree: nodes.Template = _compile_jinja_template(template).environment.parse(template)
    return ContentFormat.OPENAI if goes_through_parts(tree) else ContentFormat.STRING


def in_parts(chat: ChatInput, control: ControlTokens) -> ChatInput:
    """Return a chat with lists of parts."""
    messages = [
        _in_parts(message, chat.part_lengths.get(index, ()), control) for index, message in enumerate(chat.messages)
    ]
    return chat.model_copy(update={"messages": tuple(messages)})


def _in_parts(message: dict[str, Any], lengths: tuple[int, ...], control: ControlTokens) -> dict[str, Any]:
    content = message.get("content")
    if message.get("role") == "tool" or not isinstance(content, str | None):
        return message
    texts = [] if content is None else _texts(content, lengths, control)
    return {**message, "content": [{"type": "text", "text": text} for text in texts]}


def _texts(content: str, lengths: tuple[int, ...], control: ControlTokens) -> list[str]:
    """Return a message's parts; those that would make a control token together stay one text."""
    if not lengths:
        return [content]
    texts, begin = [], 0
    for length in lengths:
        texts.append(content[begin : begin + length])
        begin += length + 1
    return [content] if control.found_across(texts) else texts
