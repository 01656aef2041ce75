"""The official SDK against a running Conch: tools, their results, and thinking."""

import json
import re
from collections.abc import Iterable
from typing import Any

import openai
import pytest
from jsonschema import Draft202012Validator
from openai import OpenAI

from testkit.models.golden import Golden, Item

CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>")


def calls_in(item: Item) -> list[tuple[str, Any]]:
    """Return the calls that the reference implementation's answer writes."""
    found = [json.loads(text) for text in CALL.findall(item.text)]
    return [(call["name"], call["arguments"]) for call in found]


def calls_of(message: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]


def joined(chunks: Iterable[Any]) -> tuple[str, list[dict[str, str]], list[str]]:
    """Return the content, the calls and the finish reasons of a stream."""
    content, calls, reasons = "", list[dict[str, str]](), []
    for chunk in chunks:
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        reasons += [choice.finish_reason] if choice.finish_reason else []
        for piece in choice.delta.tool_calls or ():
            if piece.id is not None:
                assert (piece.index, piece.type) == (len(calls), "function")
                calls.append({"id": piece.id, "name": piece.function.name, "arguments": ""})
            calls[piece.index]["arguments"] += piece.function.arguments
    return content, calls, reasons


@pytest.mark.parametrize("name", ["tool", "tool-2", "tool-parallel"])
def test_a_model_calls_tools(client: OpenAI, golden: Golden, name: str) -> None:
    item = golden.named(name)
    answer = client.chat.completions.create(model="tiny-chat", messages=item.messages, tools=item.tools, temperature=0)
    (choice,) = answer.choices
    assert calls_of(choice.message) == calls_in(item)
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert len({call.id for call in choice.message.tool_calls or ()}) == len(calls_in(item))
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(item.output_ids)


@pytest.mark.parametrize("name", ["tool", "tool-2", "tool-parallel"])
def test_calls_are_streamed_in_pieces(client: OpenAI, golden: Golden, name: str) -> None:
    item = golden.named(name)
    stream = client.chat.completions.create(
        model="tiny-chat", messages=item.messages, tools=item.tools, temperature=0, stream=True
    )
    content, calls, reasons = joined(stream)
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == calls_in(item)
    assert (content, reasons) == ("", ["tool_calls"])


def test_arguments_of_a_strict_tool_obey_its_schema_whatever_the_model_would_write(
    client: OpenAI, golden: Golden
) -> None:
    item = golden.named("tool")
    ((name, arguments),) = calls_in(item)
    schema = {"type": "object", "properties": {"city": {"enum": ["Atlantis"]}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    answer = client.chat.completions.create(model="tiny-chat", messages=item.messages, tools=[tool], temperature=0)
    assert arguments != {"city": "Atlantis"}
    assert calls_of(answer.choices[0].message) == [(name, {"city": "Atlantis"})]
    assert answer.choices[0].finish_reason == "tool_calls"


def test_strict_tools_leave_an_answer_in_words_as_it_is(client: OpenAI, golden: Golden) -> None:
    item = golden.named("tool-not-needed")
    tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in item.tools or ()]
    answer = client.chat.completions.create(model="tiny-chat", messages=item.messages, tools=tools, temperature=0)
    assert (answer.choices[0].message.content, answer.choices[0].message.tool_calls) == (item.text, None)


def test_the_sdks_own_stream_collects_the_calls(client: OpenAI, golden: Golden) -> None:
    item = golden.named("tool-parallel")
    with client.chat.completions.stream(
        model="tiny-chat", messages=item.messages, tools=item.tools, temperature=0
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert calls_of(final.choices[0].message) == calls_in(item)


def test_at_most_one_call_comes_back_where_only_one_may(client: OpenAI, golden: Golden) -> None:
    item = golden.named("tool-parallel")
    answer = client.chat.completions.create(
        model="tiny-chat", messages=item.messages, tools=item.tools, temperature=0, parallel_tool_calls=False
    )
    assert calls_of(answer.choices[0].message) == calls_in(item)[:1]


@pytest.mark.parametrize("name", ["tool-result", "tool-not-needed"])
def test_a_result_is_put_into_words(client: OpenAI, golden: Golden, name: str) -> None:
    item = golden.named(name)
    answer = client.chat.completions.create(model="tiny-chat", messages=item.messages, tools=item.tools, temperature=0)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (item.text, "stop")
    assert answer.choices[0].message.tool_calls is None
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(item.prompt_ids)


def test_a_whole_round_of_call_and_result(client: OpenAI, golden: Golden) -> None:
    item = golden.named("tool")
    ask = {"model": "tiny-chat", "tools": item.tools, "temperature": 0}
    called = client.chat.completions.create(messages=item.messages, **ask).choices[0].message
    (call,) = called.tool_calls or ()
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 7, "condition": "rainy"}'}
    history = [*(item.messages or ()), called.model_dump(exclude_none=True), result]
    answer = client.chat.completions.create(messages=history, **ask)
    assert answer.choices[0].message.content == golden.named("tool-result").text


def test_no_tool_is_called_where_none_may_be(client: OpenAI, golden: Golden) -> None:
    item = golden.named("tool")
    answer = client.chat.completions.create(
        model="tiny-chat", messages=item.messages, tools=item.tools, tool_choice="none", temperature=0, max_tokens=30
    )
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason in ("stop", "length")


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_is_told_from_the_answer(client: OpenAI, golden: Golden, stream: bool) -> None:
    item = golden.named("think")
    thought, _, said = item.text.removeprefix("<think>\n").partition("\n</think>\n\n")
    ask = {"model": "tiny-chat", "messages": item.messages, "temperature": 0, "reasoning_effort": "high"}
    if stream:
        chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        content, usage = "".join(delta.content or "" for delta in deltas), chunks[-1].usage
    else:
        answer = client.chat.completions.create(**ask)
        message, usage = answer.choices[0].message, answer.usage
        reasoning, content = message.reasoning_content, message.content
        assert message.reasoning == reasoning
    assert (reasoning, content) == (thought, said)
    assert usage.completion_tokens == len(item.output_ids)
    marks = [item.output_ids.index(id_) for id_ in (2046, 2047)]
    assert usage.completion_tokens_details.reasoning_tokens == marks[1] - marks[0] - 1


def test_thinking_can_be_hidden_and_switched_off(client: OpenAI, golden: Golden) -> None:
    ask = {"model": "tiny-chat", "messages": golden.named("think").messages, "temperature": 0}
    hidden = client.chat.completions.create(reasoning_effort="high", extra_body={"include_reasoning": False}, **ask)
    assert hidden.choices[0].message.content == "5 + 6 = 11"
    assert hidden.choices[0].message.reasoning_content is None
    assert hidden.usage.completion_tokens_details.reasoning_tokens > 5
    off = client.chat.completions.create(reasoning_effort="none", **ask)
    assert off.choices[0].message.content == golden.named("no-think").text
    assert off.usage.prompt_tokens == len(golden.named("no-think").prompt_ids)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "../x"}}]}, "tools.0.function.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "x"}]}, "messages.0.tool_call_id"),
    ],
)
def test_what_makes_no_sense_is_refused(client: OpenAI, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            **{"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}], **fields}
        )
    assert caught.value.param == param


@pytest.mark.parametrize("budget", [0, 4])
@pytest.mark.parametrize("name", ["reasoning_max_tokens", "thinking_token_budget"])
def test_thinking_ends_when_its_tokens_are_spent(client: OpenAI, golden: Golden, name: str, budget: int) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat",
        messages=golden.named("think").messages,
        temperature=0,
        reasoning_effort="high",
        extra_body={name: budget},
    )
    assert answer.usage.completion_tokens_details.reasoning_tokens == budget
    assert "<think>" not in (answer.choices[0].message.content or "")


BOUNDED = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
HISTORY = {"type": "function", "function": {"name": "history"}}
ONLY_HISTORY = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [HISTORY]}}


def bounded(name: str) -> dict[str, Any]:
    """Return a tool whose arguments cannot become long, whatever the model thinks of it."""
    return {"type": "function", "function": {"name": name, "parameters": BOUNDED}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("choice", "names"),
    [("required", {"forecast", "history"}), (HISTORY, {"history"}), (ONLY_HISTORY, {"history"})],
)
def test_a_demanded_call_comes_whatever_is_said(client: OpenAI, choice: Any, names: set[str], stream: bool) -> None:
    ask = {
        "model": "tiny-chat",
        "messages": [{"role": "user", "content": "Hello!"}],
        "tools": [bounded("forecast"), bounded("history")],
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "temperature": 0,
    }
    if stream:
        content, calls, reasons = joined(client.chat.completions.create(stream=True, **ask))
        found = [(call["name"], json.loads(call["arguments"])) for call in calls]
        assert (content, reasons) == ("", ["tool_calls"])
    else:
        (answer,) = client.chat.completions.create(**ask).choices
        found = calls_of(answer.message)
        assert (answer.message.content, answer.finish_reason) == (None, "tool_calls")
    ((name, arguments),) = found
    assert name in names
    Draft202012Validator(BOUNDED).validate(arguments)
