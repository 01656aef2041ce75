"""From a request with its conversation to a resolved chat request, and what the answer repeats of the request; pure."""

from dataclasses import replace

from conch_contracts.messages.generation import Api
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.responses.response import ResponsesRequest
from conch_contracts.records import Profile
from conch_gateway.generation.endpoints import GenerationEndpoint, ResolvedGeneration
from conch_gateway.requests import parameters, tokenizer_request, validation
from conch_gateway.requests.parameters import Shape
from conch_gateway.requests.validation import Validated
from conch_gateway.responses import conversation
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.validation import chat_document
from conch_kit.registry.snapshot import Snapshot


def _shape(request: ChatCompletionRequest, profile: Profile) -> Shape:
    shape = parameters.chat_shape(request, profile)
    return replace(shape, api=Api.RESPONSES, prompt_param="input", limit_param="max_output_tokens")


RESPONSES: GenerationEndpoint[ChatCompletionRequest] = GenerationEndpoint(
    "responses", "resp_", "input", validation.chat, _shape, tokenizer_request.chat
)


def resolve(validated: Validated[ResponsesRequest], items: list[Item], snapshot: Snapshot) -> ResolvedGeneration:
    """Return the request and where it goes; raises a ServiceError that names what is wrong with it."""
    request = validated.request
    document = chat_document(request, conversation.messages(request.instructions, items))
    resolved = RESPONSES.resolve_valid(validation.chat(document), snapshot)
    return replace(resolved, unknown_fields=validated.unknown_fields, answer_fields=answer_fields(request))


def answer_fields(request: ResponsesRequest) -> dict[str, object]:
    """Return what the answer repeats of its request; how tokens are chosen is added when it is known."""
    text = request.text.model_dump(mode="json", by_alias=True, exclude_none=True) if request.text else {}
    reasoning = request.reasoning
    choice = request.tool_choice
    fields: dict[str, object] = {
        "background": False,
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
        "text": {"format": {"type": "text"}, **text},
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump(mode="json") if choice else "auto",
        "tools": [tool.model_dump(mode="json") for tool in request.tools or ()],
        "top_logprobs": request.top_logprobs or 0,
        "truncation": "disabled",
    }
    return fields if request.user is None else {**fields, "user": request.user}
