"""What other servers' clients call the parameters of thinking, put into the words of this API; pure."""

from collections.abc import Mapping
from typing import TypeVar

from conch_contracts.openai.chat import ChatCompletionRequest, ThinkingSwitch
from conch_contracts.records import Profile
from conch_gateway.errors.bad_request import conflicting, invalid

T = TypeVar("T")

SWITCHES = ("enable_thinking", "thinking")
"""What templates call the variable that switches thinking on or off: Qwen's, GLM's and others, and DeepSeek's."""


_WORDS: Mapping[object, bool] = {"true": True, "false": False, True: True, False: False}


def noted_switch(request: ChatCompletionRequest, profile: Profile) -> bool | None:
    """Return what the metadata say about thinking, where FastDeploy's clients may; raise where it is no switch."""
    said = (request.metadata or {}).get("enable_thinking")
    if said is None or profile is not Profile.FASTDEPLOY:
        return None
    if said not in _WORDS or type(said) is int:
        raise invalid("metadata.enable_thinking", f"expected true or false, found {said!r:.40}")
    return _WORDS[said]


def in_our_words(request: ChatCompletionRequest) -> ChatCompletionRequest:
    """Return the request with everything that it says about thinking where this API has it.

    Raises InvalidRequest where two of its parameters contradict each other.
    """
    reasoning = request.reasoning
    said = request.thinking
    switch = said if isinstance(said, ThinkingSwitch) else None
    on = _agreed(
        ("enable_thinking", request.enable_thinking),
        ("thinking", said.type == "enabled" if isinstance(said, ThinkingSwitch) else said),
        ("reasoning.enabled", reasoning.enabled if reasoning else None),
    )
    effort = _agreed(
        ("reasoning_effort", request.reasoning_effort), ("reasoning.effort", reasoning.effort if reasoning else None)
    )
    budget = _agreed(
        ("reasoning_max_tokens", request.reasoning_max_tokens),
        ("thinking_token_budget", request.thinking_token_budget),
        ("thinking.budget_tokens", switch.budget_tokens if switch else None),
        ("reasoning.max_tokens", reasoning.max_tokens if reasoning else None),
    )
    hidden = reasoning.exclude if reasoning else None
    shown = _agreed(
        ("include_reasoning", request.include_reasoning), ("reasoning.exclude", None if hidden is None else not hidden)
    )
    thinks = on if effort is None else effort != "none"
    if on not in (None, thinks):
        raise conflicting("reasoning_effort", f"contradicts what is said about thinking: it is {_word(on)}")
    for name in SWITCHES if thinks is not None else ():
        if (request.chat_template_kwargs or {}).get(name, thinks) != thinks:
            why = f"holds a {name!r} that contradicts the request: thinking is {_word(thinks)}"
            raise conflicting("chat_template_kwargs", why)
    if reasoning is None and request.thinking is None:
        return request
    return request.model_copy(
        update={
            "enable_thinking": on,
            "reasoning_effort": effort,
            "reasoning_max_tokens": None if budget == -1 else budget,
            "thinking_token_budget": None,
            "include_reasoning": shown,
        }
    )


def _agreed(*said: tuple[str, T | None]) -> T | None:
    """Return what was said under any of these names; raise where two of them differ."""
    given = [(name, value) for name, value in said if value is not None]
    for name, value in given[1:]:
        if value != given[0][1]:
            raise conflicting(name, f"contradicts '{given[0][0]}': both mean the same, so give only one")
    return given[0][1] if given else None


def _word(on: bool | None) -> str:
    return "switched on" if on else "switched off"
