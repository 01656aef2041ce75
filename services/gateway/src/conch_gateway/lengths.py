"""Prompts of so many ids that their model cannot hold them: refused before each id is looked at; pure.

To validate a million ids takes as long as to read them from JSON. Their number alone says that they are too many.
"""

from collections.abc import Mapping

from conch_contracts.openai.completions import MAX_PROMPTS
from conch_contracts.records import ModelKind
from conch_gateway.parameters import prompt_too_long
from conch_gateway.resolve import resolve
from conch_kit.snapshot import Snapshot

MANY = 10_000
"""Fewer ids are validated with the rest of their request, which costs half a millisecond."""


def check_number(document: Mapping[str, object], param: str, snapshot: Snapshot) -> None:
    """Raise InvalidRequest for a prompt of more ids than the model's context holds; `param` names it.

    Raises ModelNotFound for a model that there is not.
    """
    ids = document.get("prompt_token_ids")
    tokens = _longest(document.get(param) if ids is None else ids)
    model = document.get("model")
    if tokens <= MANY or document.get("truncate_prompt_tokens") is not None or not isinstance(model, str | None):
        return
    route = resolve(snapshot, model, kinds=(ModelKind.LLM,))
    if tokens > route.max_model_len:
        raise prompt_too_long(route.max_model_len, tokens, param=param)


def _longest(prompt: object) -> int:
    """Return how many ids a prompt has, or the longest of several; 0 for texts and messages."""
    if not isinstance(prompt, list) or not prompt:
        return 0
    several = prompt[:MAX_PROMPTS] if isinstance(prompt[0], list) else [prompt]
    return max(len(one) if isinstance(one, list) and one and type(one[0]) is int else 0 for one in several)
