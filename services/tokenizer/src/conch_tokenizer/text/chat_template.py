"""Messages to text and ids, by the model's chat template.

Templates come with models and are programs. transformers runs them in Jinja's immutable sandbox; this module runs only
in a child that is killed when one takes too long. What a template raises is the request's fault and becomes a 400 that
repeats what the template said.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import jinja2

from conch_contracts.messages.message import changed
from conch_contracts.messages.tokenization import ChatInput
from conch_contracts.records import ContentFormat
from conch_kit.errors import InvalidRequest
from conch_tokenizer.errors import TEMPLATE_ERROR
from conch_tokenizer.text.content_format import AcceptedContent, accepted_content, reads_documents
from conch_tokenizer.text.control_tokens import ControlTokens
from conch_tokenizer.text.message_content import fit_messages, show_pictures_in_texts
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

_MAX_QUOTE = 200
_OPEN_ARGUMENTS = frozenset({"kwargs"})
"""Parameters of apply_chat_template that are data for the template, not orders to the renderer."""

_WRITTEN_BY_USERS = ("messages", "tools", "documents", "template_kwargs")

_TEMPLATE_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What an expression in a template can raise; the last few come unchanged from Python."""


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """A rendered chat, not encoded yet."""

    text: str
    """As it will be shown, without marks and with the BOS that the template may have written."""
    encode: Callable[[], list[int]]


class ChatRenderer:
    """Renders chats with one model's template."""

    def __init__(self, model: ModelTokenizer) -> None:
        self._model = model
        self._control = ControlTokens(model.transformers, *(() if model.pictures is None else (model.pictures.token,)))
        orders = set(inspect.signature(model.transformers.apply_chat_template).parameters) - _OPEN_ARGUMENTS
        special = {*model.transformers.SPECIAL_TOKENS_ATTRIBUTES, *model.transformers.special_tokens_map}
        self._refused = orders | special | {"messages", "conversations"}

    def render(self, chat: ChatInput, *, add_special_tokens: bool) -> RenderedChat:
        """Render a chat; raises InvalidRequest with the template's own words."""
        self._check(chat)
        accepted = self._accepted_by_the_template(chat)
        chat = fit_messages(chat, accepted, self._control)
        control_tokens = self._control.found_in([getattr(chat, name) for name in _WRITTEN_BY_USERS])
        if control_tokens:
            chat = changed(chat, **{name: self._control.mark(getattr(chat, name)) for name in _WRITTEN_BY_USERS})
        if accepted is AcceptedContent.TEXTS and self._model.pictures is not None:
            # Only now: what stands for a picture here is none of the users' words.
            chat = show_pictures_in_texts(chat, self._model.pictures.placeholder)
        if not control_tokens:
            plain = self._apply(chat)
            return RenderedChat(plain, lambda: self._model.encode(plain, add_special_tokens=add_special_tokens))
        marked = self._apply(chat)
        return RenderedChat(
            self._control.unmark(marked), lambda: self._encode_marked(marked, add_special_tokens=add_special_tokens)
        )

    def _check(self, chat: ChatInput) -> None:
        if not chat.messages:
            raise InvalidRequest("expected at least one message, found none", param="messages")
        if refused := sorted(self._refused.intersection(chat.template_kwargs)):
            raise InvalidRequest(
                f"chat_template_kwargs must not set {refused[0]!r}: it does not belong to the template",
                param="chat_template_kwargs",
            )
        if chat.chat_template is None and not self._model.transformers.chat_template:
            raise InvalidRequest(
                f"this model has no chat template; {chat.without_template}", param="messages", code=TEMPLATE_ERROR
            )

    def _accepted_by_the_template(self, chat: ChatInput) -> AcceptedContent:
        with _blamed_on_the_request(chat):
            accepted = self._accepted(chat)
            lost = bool(chat.documents) and not reads_documents(self._template(chat))
        if lost:
            raise InvalidRequest(
                "this model's chat template has no place for documents", param="documents", code="unsupported_parameter"
            )
        return accepted

    def _accepted(self, chat: ChatInput) -> AcceptedContent:
        match chat.content_format:
            case ContentFormat.STRING:
                return AcceptedContent.TEXTS
            case ContentFormat.OPENAI:
                return AcceptedContent.PARTS
            case ContentFormat.AUTO:
                return accepted_content(self._template(chat))

    def _template(self, chat: ChatInput) -> str:
        tools = list(chat.tools) if chat.tools else None
        return self._model.transformers.get_chat_template(chat.chat_template, tools)

    def _apply(self, chat: ChatInput) -> str:
        with _blamed_on_the_request(chat):
            text = self._model.transformers.apply_chat_template(
                list(chat.messages),
                tools=list(chat.tools) if chat.tools else None,
                documents=list(chat.documents) if chat.documents else None,
                chat_template=chat.chat_template,
                add_generation_prompt=chat.add_generation_prompt,
                continue_final_message=chat.continue_final_message,
                tokenize=False,
                **chat.template_kwargs,
            )
        return cast(str, text)  # tokenize=False

    def _encode_marked(self, marked: str, *, add_special_tokens: bool) -> list[int]:
        try:
            ids = self._control.encode_marked(marked)
        except ValueError as exc:
            raise InvalidRequest(
                f"a control token in a message cannot be encoded as text: {_quote(exc)}", param="messages"
            ) from exc
        return self._model.surround(ids) if add_special_tokens else ids


@contextmanager
def _blamed_on_the_request(chat: ChatInput) -> Iterator[None]:
    try:
        yield
    except _TEMPLATE_FAILURES as exc:
        raise InvalidRequest(_sentence(exc), param=chat.chat_template_param, code=TEMPLATE_ERROR) from exc


def _sentence(exc: Exception) -> str:
    if isinstance(exc, MemoryError):
        return "the chat template needs more memory than it may have"
    if isinstance(exc, jinja2.TemplateSyntaxError):
        return f"the chat template cannot be read: {_quote(exc)} (line {exc.lineno})"
    return f"the chat template refused the messages: {_quote(exc)}"


def _quote(exc: Exception) -> str:
    """Return what an exception says, without the conversation that transformers may append to it."""
    text = str(exc).split("Final message to continue:")[0].strip() or type(exc).__name__
    return text if len(text) <= _MAX_QUOTE else text[:_MAX_QUOTE] + "…"
