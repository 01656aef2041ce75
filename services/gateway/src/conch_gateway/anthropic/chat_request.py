"""From a request of the Messages API to the chat request that asks for the same; pure."""

import re
from dataclasses import replace

from conch_contracts.anthropic.request import (
    CountTokensRequest,
    FreeThinking,
    MessagesRequest,
    NoThinking,
    PromptFields,
    ThinkingBudget,
    ToolChoice,
)
from conch_contracts.capabilities import Feature, lack
from conch_contracts.messages.generation import Api
from conch_contracts.messages.message import changed
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import ModelKind, Profile, Route
from conch_contracts.thinking_marks import ReasoningParser
from conch_gateway.anthropic import conversation
from conch_gateway.errors.chat_names import ChatNames
from conch_gateway.generation.endpoints import GenerationEndpoint
from conch_gateway.generation.recurring_parameters import CHAT_PROMPT
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.generation.tokenizer_call import TokenizerCall
from conch_gateway.requests import content_parts, parameters, tokenizer_request, validation
from conch_gateway.requests.model_lookup import find_route
from conch_gateway.requests.parameters import Shape
from conch_gateway.requests.validation import Validated
from conch_kit.registry.snapshot import Snapshot

NAMES = ChatNames(
    (
        (re.compile(r"^messages\b.*"), "messages"),  # neighbours are joined, so the numbers are others
        (re.compile(r"^(tools\.\d+)\.function\.parameters\b"), r"\1.input_schema"),
        (re.compile(r"^(tools\.\d+|tool_choice)\.function\b"), r"\1"),
        (re.compile(r"^parallel_tool_calls\b"), "tool_choice.disable_parallel_tool_use"),
        (re.compile(r"^response_format(?:\.json_schema)?\b"), "output_config.format"),
        (re.compile(r"^reasoning_effort\b"), "output_config.effort"),
        (re.compile(r"^(?:reasoning_max_tokens|thinking_token_budget)\b"), "thinking.budget_tokens"),
        (re.compile(r"^(?:enable_thinking|chat_template_kwargs)\b"), "thinking"),
        (re.compile(r"^max_completion_tokens\b"), "max_tokens"),
        (re.compile(r"^stop(?=\.|$)"), "stop_sequences"),
        (re.compile(r"^user$"), "metadata.user_id"),
    )
)
"""What this API calls the parameters of chat."""


def _shape(request: ChatCompletionRequest, profile: Profile) -> Shape:
    shape = parameters.chat_shape(request, profile)
    return replace(shape, api=Api.MESSAGES, limit_param="max_tokens", limit_gives_way=True)


MESSAGES: GenerationEndpoint[ChatCompletionRequest] = GenerationEndpoint(
    "messages", "msg_", CHAT_PROMPT, validation.chat, _shape, tokenizer_request.chat
)


def resolve(validated: Validated[MessagesRequest], snapshot: Snapshot) -> ResolvedGeneration:
    """Return the request and where it goes; raises a ServiceError that names what is wrong with it."""
    document, names, _ = _as_chat(validated.request, snapshot)
    with names.used():
        resolved = MESSAGES.resolve_valid(validation.chat(document), snapshot)
    return replace(resolved, unknown_fields=validated.unknown_fields, names=names)


def counting(validated: Validated[CountTokensRequest], snapshot: Snapshot) -> TokenizerCall:
    """Return what the model's tokenizer is asked for the length of the prompt; raises a ServiceError."""
    document, names, route = _as_chat(validated.request, snapshot)
    with names.used():
        work = tokenizer_request.chat(validation.chat(document).request, route)
    counted = changed(work, context=None, marks=())  # one that is too long is counted too
    return TokenizerCall.of(route, counted, validated.unknown_fields, names)


def _as_chat(request: PromptFields, snapshot: Snapshot) -> tuple[dict[str, object], ChatNames, Route]:
    """Return the chat request that asks for the same, and what its parameters are called here."""
    with NAMES.used():
        route = find_route(snapshot, request.model, kinds=(ModelKind.LLM,))
    messages = conversation.messages(request.system, request.messages)
    return chat_document(request, messages, route), NAMES.with_exact(content_parts.own_names(messages)), route


def chat_document(request: PromptFields, messages: list[conversation.ChatMessage], route: Route) -> dict[str, object]:
    """Return the chat request that asks for the same with these messages; for a count, one with the same prompt."""
    if messages and _is_empty(messages[-1]):
        messages.pop()
    goes_on = bool(messages) and messages[-1]["role"] == "assistant"
    translated: dict[str, object] = {
        "model": request.model,
        "messages": messages,
        "continue_final_message": True if goes_on else None,
        "add_generation_prompt": False if goes_on else None,
        **_tools(request),
        **_thinking(request, route),
        **_output(request),
    }
    if isinstance(request, MessagesRequest):
        translated |= {
            "max_completion_tokens": request.max_tokens,
            "stop": request.stop_sequences,
            "stream": request.stream,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "user": request.metadata.user_id if request.metadata else None,
        }
    return {name: value for name, value in translated.items() if value is not None}


def _is_empty(message: conversation.ChatMessage) -> bool:
    return message["role"] == "assistant" and not message["content"] and message.keys() == {"role", "content"}


def _tools(request: PromptFields) -> dict[str, object]:
    if not request.tools:
        return {}
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": tool.strict,
            },
        }
        for tool in request.tools
    ]
    choice = request.tool_choice
    if choice is None:
        return {"tools": tools}
    chosen: object = {"auto": "auto", "any": "required", "none": "none"}.get(choice.type)
    if isinstance(choice, ToolChoice):
        chosen = {"type": "function", "function": {"name": choice.name}}
    return {
        "tools": tools,
        "tool_choice": chosen,
        "parallel_tool_calls": False if choice.disable_parallel_tool_use else None,
    }


def _thinking(request: PromptFields, route: Route) -> dict[str, object]:
    """Return what is said about thinking.

    A limit that the engine cannot keep leaves it to `max_tokens`, as does one for a model that is not known to think:
    clients set one whatever the model, and less thinking is what they allow, not what they ask for.
    """
    thinking = request.thinking
    match thinking:
        case None | NoThinking():
            return {} if thinking is None else {"reasoning_effort": "none"}
        case ThinkingBudget() | FreeThinking():
            shown: dict[str, object] = (
                {"include_reasoning": False} if thinking.display in ("omitted", "updates") else {}
            )
    if isinstance(thinking, FreeThinking):
        return shown
    marked = route.chat.reasoning is not ReasoningParser.NONE
    keeps = marked and lack(Feature.THINKING_BUDGET, "thinking", route.dialect) is None
    budget = {"reasoning_max_tokens": thinking.budget_tokens} if keeps else {}
    return {"enable_thinking": True, **budget, **shown}


def _output(request: PromptFields) -> dict[str, object]:
    config = request.output_config
    if config is None:
        return {}
    found: dict[str, object] = {}
    if config.effort is not None and not isinstance(request.thinking, NoThinking):
        found["reasoning_effort"] = config.effort
    if config.format is not None:
        schema = {"name": "answer", "schema": config.format.schema_, "strict": True}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    return found
