"""Prompts of so many ids that their model cannot hold them: refused before each id is looked at; pure.

To validate a million ids takes as long as to read them from JSON. Their number alone says that they are too many.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from conch_contracts.openai.completions import MAX_PROMPTS
from conch_contracts.records import ModelKind, Route
from conch_gateway.requests.model_lookup import find_route
from conch_gateway.requests.parameters import PROMPT_IDS, prompt_too_long
from conch_kit.registry.snapshot import Snapshot

MANY = 10_000
"""Fewer ids, all prompts together, are validated with the rest of their request, which costs half a millisecond."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A prompt of more ids than its model holds: the first one of the longest."""

    route: Route
    index: int | None
    """Its place among several; None when it is the only one."""
    tokens: int


def check_number(document: Mapping[str, object], param: str, snapshot: Snapshot) -> None:
    """Raise InvalidRequest for a prompt of more ids than the model's context holds; `param` names it.

    Raises ModelNotFound for a model that there is not.
    """
    ids = document.get(PROMPT_IDS)
    prompt = document.get(param) if ids is None else ids
    found = excess(document, prompt, snapshot, kinds=(ModelKind.LLM,), most=MAX_PROMPTS)
    if found is not None:
        name = param if ids is None else PROMPT_IDS
        raise prompt_too_long(found.route.max_model_len, found.tokens, param=name)


def excess(
    document: Mapping[str, object], prompt: object, snapshot: Snapshot, *, kinds: tuple[ModelKind, ...], most: int
) -> Excess | None:
    """Return which prompt of a request has too many ids; None where its ids are few, fit, are to be cut, or are none.

    `most` is how many prompts such a request may have. Raises ModelNotFound for a model that there is not, and
    InvalidRequest for one of another kind.
    """
    model = document.get("model")
    if document.get("truncate_prompt_tokens") is not None or not isinstance(model, str | None):
        return None
    if not isinstance(prompt, list) or not prompt:
        return None
    single = not isinstance(prompt[0], list)
    lengths = [_length(one) for one in ([prompt] if single else prompt[:most])]
    if sum(lengths) <= MANY:
        return None
    tokens = max(lengths)
    route = find_route(snapshot, model, kinds=kinds)
    if tokens <= route.max_model_len:
        return None
    return Excess(route, None if single else lengths.index(tokens), tokens)


def _length(prompt: object) -> int:
    """Return how many ids a prompt has; 0 for texts and messages."""
    return len(prompt) if isinstance(prompt, list) and prompt and type(prompt[0]) is int else 0
