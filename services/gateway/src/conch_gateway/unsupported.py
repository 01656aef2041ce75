"""Parameters that the API defines and Conch does not obey yet: a clear 400, never silence; pure.

A value that asks for nothing (null, or the default) passes. Fields that clients send for their own or their
provider's sake are accepted without effect. Everything else is unknown: ignored, and counted by the caller.
"""

from collections.abc import Iterable, Mapping

from conch_contracts.capabilities import is_harmless
from conch_gateway.mistakes import unsupported
from conch_kit.errors import InvalidRequest

INERT = frozenset(
    {
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "store",
        "verbosity",
    }
)

NOT_BUILT: Mapping[str, tuple[object, ...]] = {
    "audio": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "disable_chat_template": (False,),
    "documents": (),
    "echo": (False,),
    "enable_response_messages": (False,),
    "include_logprobs_decode_token": (True,),
    "include_reasoning": (True,),
    "logprob_token_ids": ([],),
    "logits_processors": ([],),
    "lora_adapter": (),
    "max_completion_tokens": (),
    "mm_processor_kwargs": ({},),
    "modalities": (["text"],),
    "prompt_embeds": (),
    "reasoning_max_tokens": (),
    "suffix": ("",),
    "thinking_token_budget": (),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "truncation_side": ("left",),
    "web_search_options": (),
}
"""Each parameter, and the values beside null that ask for nothing; those of chat alone are refused elsewhere only."""

REPLACED: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "functions": ("tools", ([],)),
    "function_call": ("tool_choice", ("none", "auto")),
}
"""Parameters of the past, what has taken their place, and the values that ask for nothing."""


def refuse(document: Mapping[str, object], extra: Iterable[str]) -> int:
    """Raise for an extra field that is not built yet; return how many of them nobody knows."""
    unknown = 0
    for name in sorted(extra):
        if name in REPLACED:
            _refuse_replaced(name, document)
            continue
        harmless = NOT_BUILT.get(name)
        if harmless is None:
            unknown += name not in INERT
        elif not is_harmless(document[name], harmless):
            raise unsupported(name)
    return unknown


def _refuse_replaced(name: str, document: Mapping[str, object]) -> None:
    successor, harmless = REPLACED[name]
    if not is_harmless(document[name], harmless):
        raise InvalidRequest(
            f"The parameter '{name}' is not supported; use '{successor}'.", param=name, code="unsupported_parameter"
        )
