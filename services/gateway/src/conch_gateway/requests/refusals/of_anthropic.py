"""Parameters that Anthropic's Messages API does not have, or that nothing here can obey: a 400 that says what instead.

What only asks a provider for its own service stands in no table: it is left alone like everything that nobody knows.
"""

from collections.abc import Mapping

from conch_contracts.anthropic.request import CountTokensRequest, MessagesRequest
from conch_contracts.capabilities import HARMLESS
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_gateway.requests.refusals.of_generating import OF_GENERATING
from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal

_INSTEAD = {
    "max_completion_tokens": "use 'max_tokens'",
    "parallel_tool_calls": "use 'disable_parallel_tool_use' in 'tool_choice'",
    "reasoning": "use 'thinking'",
    "reasoning_effort": "use 'effort' in 'output_config'",
    "response_format": "use 'format' in 'output_config'",
    "stop": "use 'stop_sequences'",
    "user": "use 'user_id' in 'metadata'",
}
_CHANGES_NOTHING: Mapping[str, tuple[object, ...]] = {
    **HARMLESS,
    "n": (1,),
    "parallel_tool_calls": (True,),
    "stop": ([], ""),
    "stream_options": ({},),
}
LEFT_ALONE = frozenset(
    {"service_tier", "speed", "inference_geo", "diagnostics", "context_management", "cache_control", "defer_loading"}
)
"""What asks a provider for its own service; the last is of a tool."""
_OF_CHATS_AND_OTHERS = (
    (ChatCompletionRequest.model_fields.keys() | OF_GENERATING.keys())
    - MessagesRequest.model_fields.keys()
    - LEFT_ALONE
)


def _refusal(name: str) -> ParameterRefusal:
    elsewhere = OF_GENERATING.get(name, ParameterRefusal()).harmless
    return ParameterRefusal(_INSTEAD.get(name, ""), (*_CHANGES_NOTHING.get(name, ()), *elsewhere))


_OF_OTHER_APIS = {
    "function_call": ParameterRefusal("use 'tool_choice'", ("auto", "none")),
    "functions": ParameterRefusal("use 'tools'", ([],)),
    "input": ParameterRefusal("use 'messages'", ("", [])),
    "output_format": ParameterRefusal("use 'format' in 'output_config'"),
    "prompt": ParameterRefusal("use 'messages'", ("", [])),
}
_OF_SERVERS = {
    "compaction": ParameterRefusal("the client shortens its conversation"),
    "container": ParameterRefusal("nothing here runs code for the model"),
    "fallbacks": ParameterRefusal("the client asks another model", ([],)),
    "mcp_servers": ParameterRefusal("the client calls MCP servers, and offers what they have as 'tools'", ([],)),
}

_REFUSALS: Mapping[str, ParameterRefusal] = {
    **{name: _refusal(name) for name in _OF_CHATS_AND_OTHERS},
    **_OF_OTHER_APIS,
    **_OF_SERVERS,
}

OF_ANTHROPIC: Mapping[type[ApiModel], Mapping[str, ParameterRefusal]] = dict.fromkeys(
    (MessagesRequest, CountTokensRequest), _REFUSALS
)
"""The parameters of an answer may stand beside a prompt that is counted: they change no count."""
