"""Parameters that the API defines and this endpoint does not have: a clear 400, never silence; pure.

They are what only the other generating endpoint has, and what Conch has nowhere. A value that asks for nothing (null,
or the default) passes. Fields that clients send for their own or their provider's sake are accepted without effect.
Everything else is unknown: ignored, and counted by the caller.
"""

from collections.abc import Iterable, Mapping

from conch_contracts.capabilities import is_harmless
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_gateway.errors.bad_request import unsupported
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
"""Clients send these by default, to endpoints that can make nothing of them too."""

NOWHERE = frozenset(
    {
        "audio",
        "collect_metrics",
        "completion_token_ids",
        "disaggregate_info",
        "ec_transfer_params",
        "enable_response_messages",
        "include_draft_logprobs",
        "include_logprobs_decode_token",
        "logits_processors",
        "logits_processors_args",
        "logprob_token_ids",
        "lora_adapter",
        "mm_hashes",
        "mm_processor_kwargs",
        "modalities",
        "previous_input_messages",
        "previous_response",
        "prompt_cache_options",
        "prompt_embeds",
        "repetition_detection",
        "response_max_tokens",
        "return_mm_kwargs",
        "return_prompt_text",
        "return_token_offsets",
        "return_weight_versions",
        "routed_experts_prompt_start",
        "session_id",
        "stream_interval",
        "trace_context",
        "truncation_side",
        "watermarking",
        "web_search_options",
    }
)
OF_ENCODERS = frozenset(
    {
        "instruction",
        "late_chunking_params",
        "max_tokens_per_doc",
        "max_tokens_per_query",
        "media_io_kwargs",
        "padding",
        "softmax",
    }
)
"""What other servers' encoders have, and ours nowhere or at another endpoint only."""
REFUSED = (
    NOWHERE | OF_ENCODERS | (ChatCompletionRequest.model_fields.keys() ^ CompletionRequest.model_fields.keys()) - INERT
)
"""Parameters that are refused where the type of the request does not have them."""

HARMLESS: Mapping[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "chat_template_kwargs": ({},),
    "collect_metrics": (False,),
    "completion_token_ids": ([],),
    "continue_final_message": (False,),
    "disable_chat_template": (False,),
    "disaggregate_info": ({},),
    "ec_transfer_params": ({},),
    "enable_response_messages": (False,),
    "include_draft_logprobs": (False,),
    "include_logprobs_decode_token": (True,),
    "include_reasoning": (True,),
    "instruction": ("",),
    "logits_processors": ([],),
    "logits_processors_args": ({},),
    "logprob_token_ids": ([],),
    "max_tokens_per_doc": (0,),
    "max_tokens_per_query": (0,),
    "media_io_kwargs": ({},),
    "mm_hashes": ([],),
    "mm_processor_kwargs": ({},),
    "modalities": (["text"],),
    "padding": ("do_not_pad",),
    "prompt_cache_options": ({},),
    "return_mm_kwargs": (True,),
    "return_prompt_text": (False,),
    "return_token_offsets": (False,),
    "return_weight_versions": (False,),
    "routed_experts_prompt_start": (0,),
    "stream_interval": (1,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "truncation_side": ("left",),
    "watermarking": (False,),
}
"""The values beside null that ask for nothing."""

REPLACED: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "functions": ("tools", ([],)),
    "function_call": ("tool_choice", ("none", "auto")),
}
"""Parameters of the past, what has taken their place, and the values that ask for nothing."""


def refuse(document: Mapping[str, object], extra: Iterable[str]) -> int:
    """Raise for an extra field that this endpoint does not have; return how many of them nobody knows."""
    unknown = 0
    for name in sorted(extra):
        if name in REPLACED:
            _refuse_replaced(name, document)
            continue
        if name not in REFUSED:
            unknown += name not in INERT
        elif not is_harmless(document[name], HARMLESS.get(name, ())):
            raise unsupported(name)
    return unknown


def _refuse_replaced(name: str, document: Mapping[str, object]) -> None:
    successor, harmless = REPLACED[name]
    if not is_harmless(document[name], harmless):
        raise InvalidRequest(
            f"The parameter '{name}' is not supported; use '{successor}'.", param=name, code="unsupported_parameter"
        )
