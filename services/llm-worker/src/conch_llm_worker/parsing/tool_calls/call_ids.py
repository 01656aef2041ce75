"""Ids of calls: unguessable, and of the form that the model's chat template accepts when they come back."""

import secrets
import string
from collections.abc import Callable

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.tool_call_marks import ToolCallParser

_MISTRAL_CHARS = string.ascii_letters + string.digits
_MISTRAL_LENGTH = 9
_MISTRAL_FORMS = (ToolCallParser.MISTRAL, ToolCallParser.JSON)
"""The forms in which models of Mistral's write calls: their own, and the list that a demanded call is."""


def call_ids(parsing: Parsing) -> Callable[[], str]:
    """Return what makes the ids of an answer's calls; Mistral's templates want nine letters and digits."""
    if parsing.calls is not None and parsing.calls.parser in _MISTRAL_FORMS:
        return _mistral_id
    return _id


def _id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _mistral_id() -> str:
    return "".join(secrets.choice(_MISTRAL_CHARS) for _ in range(_MISTRAL_LENGTH))
