"""Parameters that the API defines and Conch does not obey yet: a clear 400, never silence; pure.

A value that asks for nothing (null, or the default) passes. Fields that clients send for their own or their
provider's sake are accepted without effect. Everything else is unknown: ignored, and counted by the caller.
"""

from collections.abc import Iterable, Mapping

from conch_kit.errors import InvalidRequest

INERT = frozenset(
    {
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "verbosity",
    }
)

NOT_BUILT: Mapping[str, tuple[object, ...]] = {
    "allowed_token_ids": (),
    "audio": (),
    "bad_words_token_ids": (),
    "best_of": (),
    "cache_salt": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "disable_chat_template": (False,),
    "documents": (),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "include_reasoning": (True,),
    "kv_transfer_params": (),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "lora_adapter": (),
    "max_completion_tokens": (),
    "max_streaming_response_tokens": (),
    "mm_processor_kwargs": ({},),
    "modalities": (["text"],),
    "priority": (0,),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "reasoning_max_tokens": (),
    "request_id": (),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "spaces_between_special_tokens": (True,),
    "suffix": ("",),
    "temp_scaled_logprobs": (False,),
    "thinking_token_budget": (),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "top_p_normalized_logprobs": (False,),
    "use_beam_search": (False,),
    "vllm_xargs": ({},),
    "web_search_options": (),
}
"""Each parameter, and the values beside null that ask for nothing; those of chat alone are refused elsewhere only."""

_IN_MESSAGE = ("tool_calls", "function_call", "tool_call_id", "audio")


def refuse(document: Mapping[str, object], extra: Iterable[str]) -> int:
    """Raise for an extra field that is not built yet; return how many of them nobody knows."""
    unknown = 0
    for name in sorted(extra):
        harmless = NOT_BUILT.get(name)
        if harmless is None:
            unknown += name not in INERT
        elif not _asks_for_nothing(name, document, harmless):
            raise unsupported(name)
    return unknown


def refuse_in_messages(messages: object) -> None:
    """Raise for tool calls and tool answers in a conversation."""
    if not isinstance(messages, list):
        return
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            return
        if message.get("role") in ("tool", "function"):
            raise unsupported(f"messages.{index}.role")
        for name in _IN_MESSAGE:
            if message.get(name):
                raise unsupported(f"messages.{index}.{name}")


def refuse_in_stream_options(options: object) -> None:
    """Raise for usage in every frame."""
    if isinstance(options, dict) and options.get("continuous_usage_stats"):
        raise unsupported("stream_options.continuous_usage_stats")


def unsupported(param: str) -> InvalidRequest:
    """Return the error for a parameter that is not built yet."""
    return InvalidRequest(f"The parameter '{param}' is not supported.", param=param, code="unsupported_parameter")


def _asks_for_nothing(name: str, document: Mapping[str, object], harmless: tuple[object, ...]) -> bool:
    value = document[name]
    if name == "best_of" and value == (document.get("n") or 1):
        return True
    # bool is an int to Python: without the type check 1 would pass for True.
    return value is None or any(
        value == other and isinstance(value, bool) == isinstance(other, bool) for other in harmless
    )
