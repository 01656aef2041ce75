"""Anthropic's SDK against a running Conch: whole answers, streams, counts, tools, thinking, forms and errors."""

import json
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic

from conch_contracts.anthropic.answer import AnswerMessage
from testkit.models.golden import Golden, Item, load_golden

CHATS = [item.name for item in load_golden().chats()]
CALLING = ["tool", "tool-2", "tool-parallel"]
HELLO: list[Any] = [{"role": "user", "content": "Hello!"}]
GREEDY = {"temperature": 0}
"""The SDK has no such parameter any more; the API has."""
THINKS: dict[str, Any] = {"max_tokens": 1025, "thinking": {"type": "enabled", "budget_tokens": 1024}}


def asked(item: Item) -> dict[str, Any]:
    """Return what asks for a reference answer."""
    messages = item.messages or []
    system = [message["content"] for message in messages if message["role"] == "system"]
    return {
        "model": "tiny-chat",
        "max_tokens": 512,
        "messages": [message for message in messages if message["role"] != "system"],
        "system": system[0] if system else anthropic.omit,
        "tools": [_tool(tool["function"]) for tool in item.tools] if item.tools else anthropic.omit,
        "extra_body": GREEDY,
    }


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }


def calls_in(item: Item) -> list[tuple[str, Any]]:
    """Return the calls that the reference implementation's answer writes."""
    texts = [part.partition("\n</tool_call>")[0] for part in item.text.split("<tool_call>\n")[1:]]
    return [(call["name"], call["arguments"]) for call in map(json.loads, texts)]


def texts_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize("stream", [False, True])
def test_greedy_answers_equal_the_reference(client: Anthropic, golden: Golden, name: str, stream: bool) -> None:
    item = golden.named(name)
    if stream:
        with client.messages.stream(**asked(item)) as told:
            said = "".join(told.text_stream)
            message: Any = told.get_final_message()
        assert said == item.text
    else:
        message = client.messages.create(**asked(item))
        AnswerMessage.model_validate(message.to_dict())
    assert texts_of(message) == item.text
    assert message.stop_reason == {"stop": "end_turn", "length": "max_tokens"}[item.finish_reason]
    assert message.usage.input_tokens == len(item.prompt_ids)
    assert message.usage.output_tokens == len(item.output_ids)


@pytest.mark.parametrize("name", [*CHATS, *CALLING])
def test_a_count_is_what_the_answer_uses(client: Anthropic, golden: Golden, name: str) -> None:
    item = golden.named(name)
    said = asked(item)
    prompt = {key: said[key] for key in ("model", "messages", "system", "tools")}
    assert client.messages.count_tokens(**prompt).input_tokens == len(item.prompt_ids)


@pytest.mark.parametrize("name", CALLING)
@pytest.mark.parametrize("stream", [False, True])
def test_a_model_calls_tools(client: Anthropic, golden: Golden, name: str, stream: bool) -> None:
    item = golden.named(name)
    if stream:
        with client.messages.stream(**asked(item)) as told:
            message: Any = told.get_final_message()
    else:
        message = client.messages.create(**asked(item))
    calls = [block for block in message.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == calls_in(item)
    assert message.stop_reason == "tool_use"
    assert len({call.id for call in calls}) == len(calls)


def test_a_result_leads_to_the_answer(client: Anthropic, golden: Golden) -> None:
    item = golden.named("tool")
    said = asked(item)
    message = client.messages.create(**said)
    (call,) = [block for block in message.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": '{"temp": 7}'}]}
    said["messages"] = [*said["messages"], message.to_param(), {"role": "user", "content": [result]}]
    after = client.messages.create(**said)
    assert after.stop_reason in ("end_turn", "max_tokens", "tool_use")
    assert after.usage.input_tokens > message.usage.input_tokens


@pytest.mark.parametrize(
    ("choice", "most"),
    [({"type": "any", "disable_parallel_tool_use": True}, 1), ({"type": "tool", "name": "get_weather"}, 1)],
)
def test_a_demanded_call_comes(client: Anthropic, choice: Any, most: int) -> None:
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
    tools: Any = [{"name": name, "description": "d", "input_schema": schema} for name in ("get_weather", "get_time")]
    message = client.messages.create(model="tiny-chat", max_tokens=100, messages=HELLO, tools=tools, tool_choice=choice)
    calls = [block for block in message.content if block.type == "tool_use"]
    assert (len(calls), message.stop_reason) == (most, "tool_use")
    assert calls[0].input["city"] in ("Paris", "Rome")


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_is_a_block_before_the_text_and_may_go_back(client: Anthropic, golden: Golden, stream: bool) -> None:
    item = golden.named("think")
    thought, _, text = item.text.removeprefix("<think>\n").partition("\n</think>\n\n")
    said = asked(item) | THINKS
    if stream:
        with client.messages.stream(**said) as told:
            message: Any = told.get_final_message()
    else:
        message = client.messages.create(**said)
    first, second = message.content
    assert (first.thinking.strip(), second.text) == (thought, text)
    assert first.signature
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    said["messages"] = [*said["messages"], message.to_param(), {"role": "user", "content": "Again!"}]
    assert client.messages.create(**said).content


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_that_is_left_out_is_a_block_without_its_text(client: Anthropic, golden: Golden, stream: bool) -> None:
    said = asked(golden.named("think")) | {**THINKS, "thinking": {**THINKS["thinking"], "display": "omitted"}}
    if stream:
        with client.messages.stream(**said) as told:
            message: Any = told.get_final_message()
    else:
        message = client.messages.create(**said)
    thought, text = message.content
    assert (thought.type, thought.thinking, text.type) == ("thinking", "", "text")
    assert thought.signature
    assert message.usage.output_tokens_details.thinking_tokens > 0
    said["messages"] = [*said["messages"], message.to_param(), {"role": "user", "content": "Again!"}]
    assert client.messages.create(**said).content


def test_thinking_can_be_switched_off(client: Anthropic, golden: Golden) -> None:
    said = asked(golden.named("think")) | THINKS
    off = client.messages.create(**{**said, "thinking": {"type": "disabled"}})
    assert texts_of(off) == golden.named("no-think").text
    assert off.usage.input_tokens == len(golden.named("no-think").prompt_ids)


def test_an_answer_goes_on_where_the_assistant_has_begun(client: Anthropic, golden: Golden) -> None:
    item = next(golden.named(name) for name in CHATS if golden.named(name).text.startswith("The capital of France"))
    said = asked(item)
    said["messages"] = [*said["messages"], {"role": "assistant", "content": "The capital of"}]
    assert texts_of(client.messages.create(**said)).strip() == item.text.removeprefix("The capital of").strip()


def test_an_answer_obeys_a_schema(client: Anthropic) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    message = client.messages.create(
        model="tiny-chat",
        max_tokens=50,
        messages=HELLO,
        output_config={"format": {"type": "json_schema", "schema": schema}},
    )
    assert json.loads(texts_of(message))["n"] in (1, 2)


def test_an_answer_ends_at_a_stop_sequence(client: Anthropic, golden: Golden) -> None:
    item = next(golden.named(name) for name in CHATS if " is " in golden.named(name).text)
    message = client.messages.create(**asked(item), stop_sequences=[" is "])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " is ")
    assert texts_of(message) == item.text.partition(" is ")[0]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_cut_at_the_end_of_the_context(client: Anthropic, golden: Golden, stream: bool) -> None:
    item = golden.named("story")
    said = asked(item) | {"max_tokens": 20_000}
    said["system"] = " a" * (1024 - len(item.prompt_ids) - 40)
    if stream:
        with client.messages.stream(**said) as told:
            message: Any = told.get_final_message()
    else:
        message = client.messages.create(**said)
    assert message.stop_reason == "model_context_window_exceeded"
    assert message.usage.input_tokens + message.usage.output_tokens == 1024


async def test_the_asynchronous_client_streams(base_url: str, api_key: str) -> None:
    async with (
        AsyncAnthropic(base_url=base_url.removesuffix("/v1"), auth_token=api_key) as client,
        client.messages.stream(model="tiny-chat", max_tokens=20, messages=HELLO) as told,
    ):
        text = "".join([piece async for piece in told.text_stream])
        assert text == texts_of(await told.get_final_message())


@pytest.mark.parametrize(
    ("change", "kind", "names"),
    [
        ({"model": "nope"}, anthropic.NotFoundError, "nope"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "max_tokens"),
        ({"messages": [{"role": "user", "content": "a " * 5000}]}, anthropic.BadRequestError, "context"),
        ({"messages": [{"role": "user", "content": "a" * 11_000_000}]}, anthropic.RequestTooLargeError, "bytes"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "odd"}}}},
            anthropic.BadRequestError,
            "output_config.format.schema",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_the_sdks_own_classes(
    client: Anthropic, change: dict[str, Any], kind: type[anthropic.APIStatusError], names: str, stream: bool
) -> None:
    said: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 20, "messages": HELLO, **change}
    with pytest.raises(kind) as failed:
        client.messages.create(**said, stream=stream)
    assert failed.value.request_id
    assert names in str(failed.value)


def test_models_are_listed_for_this_sdk_too(client: Anthropic) -> None:
    models = list(client.models.list())
    assert models[0].id == "tiny-chat"
    chat = client.models.retrieve("tiny-chat")
    assert (chat.type, chat.display_name, chat.lifecycle, chat.max_input_tokens) == (
        "model",
        "tiny-chat",
        "active",
        1024,
    )
    assert chat.created_at.year > 2000
    with pytest.raises(anthropic.NotFoundError) as failed:
        client.models.retrieve("nope")
    assert (failed.value.type, bool(failed.value.request_id)) == ("not_found_error", True)


def test_betas_that_nobody_knows_are_no_reason_to_refuse(client: Anthropic) -> None:
    message = client.beta.messages.create(model="tiny-chat", max_tokens=5, messages=HELLO, betas=["anything-2031"])
    assert message.content


def test_the_sdks_runner_of_tools_gets_to_its_end(client: Anthropic, golden: Golden) -> None:
    asked_for: list[str] = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the current weather in a city."""
        asked_for.append(city)
        return '{"temp": 7}'

    item = golden.named("tool")
    runner = client.beta.messages.tool_runner(
        model="tiny-chat", max_tokens=100, max_iterations=3, tools=[get_weather], messages=asked(item)["messages"]
    )
    answers = list(runner)
    assert answers[0].stop_reason == "tool_use"
    assert asked_for
    assert len(answers) > 1


def test_a_number_beyond_every_float_stays_what_the_model_wrote(client: Anthropic) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 10**15}}, "required": ["n"]}
    tools: Any = [{"name": "t", "input_schema": {**schema, "additionalProperties": False}}]
    said: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 700, "messages": HELLO, "extra_body": GREEDY}
    demanded: dict[str, Any] = {**said, "tools": tools, "tool_choice": {"type": "any"}}
    whole = client.messages.with_raw_response.create(**demanded).text()
    events = client.messages.with_raw_response.create(**demanded, stream=True).text()
    for found in (whole, events):
        assert '"stop_reason":"' in found
        assert "error" not in found
