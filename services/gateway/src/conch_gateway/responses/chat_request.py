"""From a request with its conversation to the chat request that asks for the same, and what its answer repeats; pure.

A response is a chat completion in another form: sampling, tools and formats are obeyed where chat's are.
"""

from dataclasses import replace

from conch_contracts.messages.generation import Api
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.responses.response import (
    AllowedTools,
    ChosenFunction,
    FunctionTool,
    PlainFormat,
    ResponsesRequest,
    SchemaFormat,
    TextOptions,
)
from conch_contracts.openai.sampling import DrawingFields, is_on
from conch_contracts.records import Profile
from conch_gateway.generation.endpoints import GenerationEndpoint
from conch_gateway.generation.recurring_parameters import CHAT_PROMPT
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.requests import content_parts, parameters, tokenizer_request, validation
from conch_gateway.requests.parameters import Shape
from conch_gateway.requests.validation import Validated
from conch_gateway.responses import conversation
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.validation import NAMES
from conch_kit.registry.snapshot import Snapshot

SHARED = frozenset(
    {
        "model",
        "user",
        "parallel_tool_calls",
        "structured_outputs",
        "chat_template_kwargs",
        *DrawingFields.model_fields,
    }
)
"""Parameters that mean the same in chat."""


def _shape(request: ChatCompletionRequest, profile: Profile) -> Shape:
    shape = parameters.chat_shape(request, profile)
    return replace(shape, api=Api.RESPONSES, prompt_param="input", limit_param="max_output_tokens")


RESPONSES: GenerationEndpoint[ChatCompletionRequest] = GenerationEndpoint(
    "responses", "resp_", CHAT_PROMPT, validation.chat, _shape, tokenizer_request.chat
)


def resolve(
    validated: Validated[ResponsesRequest], earlier: list[Item], given: list[Item], snapshot: Snapshot
) -> ResolvedGeneration:
    """Return the request, whose items come behind earlier ones, and where it goes.

    Raises a ServiceError that names what is wrong with it.
    """
    request = validated.request
    messages = conversation.messages(request.instructions, earlier, given)
    names = NAMES.with_exact(content_parts.own_names(messages))
    with names.used():
        resolved = RESPONSES.resolve_valid(validation.chat(chat_document(request, messages)), snapshot)
    return replace(resolved, unknown_fields=validated.unknown_fields, answer_fields=answer_fields(request), names=names)


def chat_document(request: ResponsesRequest, messages: list[dict[str, object]]) -> dict[str, object]:
    """Return the chat request that asks for the same."""
    given = request.model_dump(by_alias=True, include=set(SHARED), exclude_none=True)
    logprobs = shows_logprobs(request)
    effort = request.reasoning.effort if request.reasoning else None
    translated: dict[str, object] = {
        "messages": messages,
        "stream": is_on(request.stream),
        "max_completion_tokens": request.max_output_tokens,
        "logprobs": True if logprobs else None,
        "top_logprobs": request.top_logprobs if logprobs else None,
        "response_format": _response_format(request),
        "reasoning_effort": effort,
        **_tools(request),
    }
    return {**given, **{name: value for name, value in translated.items() if value is not None}}


def shows_logprobs(request: ResponsesRequest) -> bool:
    """Tell whether the answer shows log probabilities."""
    return "message.output_text.logprobs" in (request.include or ()) or bool(request.top_logprobs)


def answer_fields(request: ResponsesRequest) -> dict[str, object]:
    """Return what the answer repeats of its request; how tokens are chosen is added when it is known."""
    reasoning = request.reasoning
    choice = request.tool_choice
    fields: dict[str, object] = {
        "background": is_on(request.background),
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "metadata": request.metadata or {},
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "prompt_cache_retention": request.prompt_cache_retention,
        "reasoning": {
            "effort": reasoning.effort if reasoning else None,
            "summary": reasoning.summary if reasoning else None,
        },
        "safety_identifier": request.safety_identifier,
        "service_tier": "default",
        "store": request.store is not False,
        "text": _text(request.text),
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump(mode="json") if choice else "auto",
        "tools": [tool.model_dump(mode="json") for tool in request.tools or ()],
        "top_logprobs": request.top_logprobs or 0,
        "truncation": "disabled",
    }
    return fields if request.user is None else {**fields, "user": request.user}


def _text(options: TextOptions | None) -> dict[str, object]:
    """Return the form of the answer as an answer tells it.

    Open Responses requires two fields of a schema's form that a request may leave out, and OpenAI's schema has no null
    for them.
    """
    if options is None:
        return {"format": {"type": "text"}}
    told = options.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(options.format, SchemaFormat):
        told["format"] = {"description": "", "strict": False, **told["format"]}
    return {"format": {"type": "text"}, **told}


def _response_format(request: ResponsesRequest) -> dict[str, object] | None:
    wanted = request.text.format if request.text else None
    if wanted is None or wanted.type == "text":
        return None
    if isinstance(wanted, PlainFormat):
        return {"type": wanted.type}
    schema = wanted.model_dump(by_alias=True, exclude_none=True, exclude={"type"})
    return {"type": "json_schema", "json_schema": schema}


def _tools(request: ResponsesRequest) -> dict[str, object]:
    """Return the tools and the choice among them as chat has them."""
    tools, choice = request.tools or [], request.tool_choice
    chosen: object = choice
    if isinstance(choice, ChosenFunction):
        chosen = _named(choice.name)
    elif isinstance(choice, AllowedTools):
        allowed = {"mode": choice.mode, "tools": [_named(tool.name) for tool in choice.tools]}
        chosen = {"type": "allowed_tools", "allowed_tools": allowed}
    if chosen == "auto" and not tools:  # chat refuses what this API takes
        chosen = None
    return {"tools": [_tool(tool) for tool in tools] or None, "tool_choice": chosen}


def _named(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


def _tool(tool: FunctionTool) -> dict[str, object]:
    return {"type": "function", "function": tool.model_dump(exclude_none=True, exclude={"type"})}
