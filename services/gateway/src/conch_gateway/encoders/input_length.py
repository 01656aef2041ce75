"""Inputs that are longer than their model takes, and the words in which they are refused; pure."""

from collections.abc import Mapping

from conch_contracts.openai.encoders.fields import MAX_INPUTS
from conch_contracts.records import ModelKind
from conch_gateway.requests.prompt_length import excess
from conch_kit.errors import InvalidRequest
from conch_kit.registry.snapshot import Snapshot


def check_number(document: Mapping[str, object], snapshot: Snapshot, kinds: tuple[ModelKind, ...]) -> None:
    """Raise InvalidRequest for an input of more ids than the model takes, before each of many is looked at.

    Raises ModelNotFound for a model that there is not.
    """
    found = excess(document, document.get("input"), snapshot, kinds=kinds, most=MAX_INPUTS)
    if found is not None and not found.route.encoder.truncate:
        name = "input" if found.index is None else f"input.{found.index}"
        raise too_long(found.route.max_model_len, found.tokens, param=name)


def too_long(limit: int, tokens: int, *, param: str, cut: str = "set 'truncate_prompt_tokens'") -> InvalidRequest:
    """Return the error for a text of so many tokens; `cut` is what cuts it."""
    return InvalidRequest(
        f"This model's maximum context length is {limit} tokens. However, your '{param}' has {tokens} tokens. "
        f"Please reduce the length of the input prompt, or {cut}.",
        param=param,
        code="context_length_exceeded",
    )
