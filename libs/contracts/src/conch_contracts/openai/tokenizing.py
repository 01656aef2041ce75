"""Tokens of texts, `POST /tokenize`, and texts of tokens, `POST /detokenize`, for models of every kind."""

from typing import Annotated, Any

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import MAX_MESSAGES, MAX_TEMPLATE_ARGUMENTS, MAX_TEMPLATE_CHARS, ChatMessage
from conch_contracts.openai.sampling import TokenId
from conch_contracts.openai.tools import MAX_TOOLS, Tool

MAX_TOKENS = 1_200_000


class TokenizeRequest(ApiModel):
    """What a client may ask of `POST /tokenize`: exactly one of `prompt` and `messages`."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)] | None = None
    add_special_tokens: bool | None = None
    """True for `prompt`, false for `messages` when absent."""
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    tools: Annotated[list[Tool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    """Functions that the prompt of `messages` offers."""
    chat_template: Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARS)] | None = None
    """A Jinja template instead of the model's own; for gateways that allow it."""
    chat_template_kwargs: Annotated[dict[str, Any], Field(max_length=MAX_TEMPLATE_ARGUMENTS)] | None = None
    """Variables for the chat template, such as `enable_thinking`."""
    return_token_strs: bool | None = None


class TokenizeAnswer(ApiModel):
    """The ids."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None
    """Null unless `return_token_strs` asks for them."""


class DetokenizeRequest(ApiModel):
    """What a client may ask of `POST /detokenize`."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    tokens: Annotated[list[TokenId], Field(max_length=MAX_TOKENS, fail_fast=True)]
    skip_special_tokens: bool | None = None
    """True: special tokens are left out of the text."""


class DetokenizeAnswer(ApiModel):
    """The text."""

    prompt: str
