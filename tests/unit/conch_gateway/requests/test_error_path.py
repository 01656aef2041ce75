"""Where an error lies in a request, also where members are called like the types beside them."""

from typing import Any

import pytest

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.responses.response import ResponsesRequest
from conch_gateway.requests import validation
from conch_kit.errors import InvalidRequest

INNER = {"name": "x", "schema": {}}


@pytest.mark.parametrize(
    ("kind", "fields", "param"),
    [
        (ResponsesRequest, {"text": {"format": {"type": "json_schema", "json_schema": INNER}}}, "text.format.name"),
        (ResponsesRequest, {"input": [{"type": "function_call", "function_call": {"call_id": "a", "name": "f"}}]},
         "input.0.call_id"),
        (ResponsesRequest, {"input": [{"type": "message", "message": {"role": "user", "content": "a"}}]},
         "input.0.role"),
        (ResponsesRequest, {"input": [{"message": {"role": "user", "content": "a"}}]}, "input.0.role"),
        (ResponsesRequest, {"input": [{"type": "function_call_output", "function_call_output": {"call_id": "a"}}]},
         "input.0.call_id"),
        (ResponsesRequest, {"input": [{"type": "reasoning", "reasoning": {"summary": []}}]}, "input.0.summary"),
        (ResponsesRequest,
         {"input": [{"role": "user", "content": [{"type": "input_text", "input_text": {"text": "x"}}]}]},
         "input.0.content.0.text"),
        (ResponsesRequest, {"input": [{"role": "user", "content": [{"type": "output_text", "output_text": "x"}]}]},
         "input.0.content.0.text"),
        (ResponsesRequest, {"metadata": {"k" * 65: "v"}}, f"metadata.{'k' * 65}"),
        (ResponsesRequest, {"metadata": {"dict": 5}}, "metadata.dict"),
        (ChatCompletionRequest, {"response_format": {"type": "json_schema", "json_schema": {"json_schema": INNER}}},
         "response_format.json_schema.name"),
        (ChatCompletionRequest, {"response_format": {"type": "json_schema", "json_schema": {"name": 5}}},
         "response_format.json_schema.name"),
        (ChatCompletionRequest, {"tools": [{"type": "function", "function": {"description": "x"}}]},
         "tools.0.function.name"),
        (ChatCompletionRequest, {"tools": [{"type": "function", "name": "f"}]}, "tools.0.function"),
        (ChatCompletionRequest, {"stop": ["a", 5]}, "stop.1"),
        (ChatCompletionRequest, {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
         "messages.0.content.0.text"),
    ],
)  # fmt: skip
def test_the_error_names_a_member_of_the_request(kind: type[ApiModel], fields: dict[str, Any], param: str) -> None:
    needed = {"model": "m", "input": "a"} if kind is ResponsesRequest else {"model": "m", "messages": []}
    with pytest.raises(InvalidRequest) as caught:
        validation.typed(kind, {**needed, **fields})
    assert caught.value.param == param
