"""The official SDK against a running Conch: tools, thinking and formats in the Responses API."""

import json
from typing import Any

import pytest
from openai import OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from testkit.golden import Golden, Item
from testkit.openai_schemas import check, check_event

WEATHER = "What is the weather in Reykjavik?"


class Person(BaseModel):
    name: str
    age: int


def tools_of(item: Item) -> list[dict[str, Any]]:
    """Return an item's tools as this API has them."""
    return [{"type": "function", "strict": None, **tool["function"]} for tool in item.tools or []]


def calls_of(response: Response) -> list[tuple[str, dict[str, Any]]]:
    return [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]


def valid(response: Response) -> Response:
    body = response.model_dump(mode="json", exclude_unset=True, by_alias=True)
    check("Response", body)
    Response.model_validate(body)
    return response


def answered(client: OpenAI, *, stream: bool, **asked: Any) -> Response:
    """Return the answer, however it comes; every event is checked."""
    made = client.responses.create(model="tiny-chat", temperature=0, stream=stream, **asked)
    if isinstance(made, Response):
        return valid(made)
    events = list(made)
    for number, event in enumerate(events):
        check_event(event.model_dump(mode="json", exclude_unset=True, by_alias=True))
        assert event.sequence_number == number
    return valid(events[-1].response)


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_calls_tools_and_answers_with_what_they_gave(client: OpenAI, golden: Golden, stream: bool) -> None:
    tools = tools_of(golden.named("tool"))
    asked = answered(client, stream=stream, input=WEATHER, tools=tools)
    assert calls_of(asked) == [("get_weather", {"location": "Reykjavik"})]
    (call,) = asked.output
    output = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": '{"temperature": 7, "condition": "rainy"}',
    }
    told = answered(client, stream=stream, input=[output], tools=tools, previous_response_id=asked.id)
    assert told.output_text == golden.named("tool-result").text
    whole = [{"role": "user", "content": WEATHER}, *[item.model_dump() for item in asked.output], output]
    assert answered(client, stream=stream, input=whole, tools=tools).output_text == told.output_text
    listed = [item.type for item in client.responses.input_items.list(told.id, order="asc")]
    assert listed == ["message", "function_call", "function_call_output"]


@pytest.mark.parametrize(("parallel", "count"), [(True, 2), (False, 1)])
def test_several_calls_come_back_where_several_may(client: OpenAI, golden: Golden, parallel: bool, count: int) -> None:
    item = golden.named("tool-parallel")
    response = answered(client, stream=True, input=item.messages, tools=tools_of(item), parallel_tool_calls=parallel)
    assert len(calls_of(response)) == count


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "send_message"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "send_message"}]},
    ],
)
def test_a_call_can_be_demanded(client: OpenAI, golden: Golden, choice: Any) -> None:
    item = golden.named("tool-2")
    response = answered(
        client, stream=False, input="What is 2+2?", tools=tools_of(item), tool_choice=choice, max_output_tokens=200
    )
    names = {name for name, _ in calls_of(response)}
    assert names <= ({"get_weather", "send_message"} if choice == "required" else {"send_message"})
    assert names


def test_the_stream_helper_collects_a_call(client: OpenAI, golden: Golden) -> None:
    tools = tools_of(golden.named("tool"))
    with client.responses.stream(model="tiny-chat", input=WEATHER, tools=tools, temperature=0) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= kinds
    assert [(item.type, item.name) for item in final.output] == [("function_call", "get_weather")]


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_is_an_item_before_the_text(client: OpenAI, golden: Golden, stream: bool) -> None:
    item = golden.named("think")
    response = answered(client, stream=stream, input=item.messages, reasoning={"effort": "low"})
    thought, message = response.output
    assert (thought.type, message.type) == ("reasoning", "message")
    assert thought.content[0].text.strip() == "The user asks for 5 + 6. Adding gives 11."
    assert response.output_text == "5 + 6 = 11"
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens > 0


def test_a_model_that_shall_not_think_does_not(client: OpenAI, golden: Golden) -> None:
    response = answered(client, stream=False, input=golden.named("no-think").messages, reasoning={"effort": "none"})
    assert [item.type for item in response.output] == ["message"]


def test_text_follows_a_schema_and_is_parsed(client: OpenAI) -> None:
    response = client.responses.parse(
        model="tiny-chat",
        input="Give me a JSON object with name Zoe and age 41.",
        text_format=Person,
        temperature=0,
    )
    assert response.output_parsed == Person(name="Zoe", age=41)


@pytest.mark.parametrize("stream", [False, True])
def test_text_is_a_json_object_where_one_is_asked_for(client: OpenAI, stream: bool) -> None:
    response = answered(
        client,
        stream=stream,
        input="Give me a JSON object with name Zoe and age 41.",
        text={"format": {"type": "json_object"}},
    )
    assert isinstance(json.loads(response.output_text), dict)
