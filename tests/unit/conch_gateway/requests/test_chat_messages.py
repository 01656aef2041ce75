"""Messages with calls of tools and their results."""

from typing import Any

import pytest

from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.requests import validation
from conch_gateway.requests.chat_messages import as_templates_expect, check_arguments, part_lengths
from conch_kit.errors import InvalidRequest

USER = {"role": "user", "content": "Weather?"}


def call(id_: str = "call_1", arguments: str = '{"city": "Paris"}') -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def calling(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def result(id_: str = "call_1", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "sunny", "tool_call_id": id_, **fields}


def request(*messages: dict[str, Any]) -> ChatCompletionRequest:
    return validation.chat({"messages": [USER, *messages]}).request


def flat(*messages: dict[str, Any], calls: ToolCallParser = ToolCallParser.HERMES) -> list[dict[str, Any]]:
    return list(as_templates_expect(request(*messages).messages or (), calls))[1:]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([{"role": "assistant", "content": None}], "messages.1.content"),
        ([calling()], "messages.1.content"),
        ([{**USER, "tool_calls": [call()]}], "messages.1.tool_calls"),
        ([{**USER, "function_call": {"name": "f", "arguments": ""}}], "messages.1.function_call"),
        ([calling({"id": "1", "function": {"name": "f"}})], "messages.1.tool_calls.0.function.arguments"),
        ([calling(call(arguments=3))], "messages.1.tool_calls.0.function.arguments"),  # type: ignore[arg-type]
        ([calling({**call(), "type": "custom"})], "messages.1.tool_calls.0.type"),
        ([{"role": "tool", "content": "x"}], "messages.1.tool_call_id"),
        ([result()], "messages.1.tool_call_id"),
        ([calling(call()), result("call_2")], "messages.2.tool_call_id"),
        ([result(), calling(call())], "messages.1.tool_call_id"),
        ([calling(call()), result(content=None)], "messages.2.content"),
        ([{"role": "function", "content": "x"}], "messages.1.name"),
        ([{"role": "user", "content": [{"type": "refusal", "refusal": "No."}]}], "messages.1.content.0.type"),
        ([{**USER, "refusal": "No."}], "messages.1.refusal"),
        ([{"role": "assistant", "content": None, "refusal": 3}], "messages.1.refusal"),
        ([{"role": "assistant", "content": None, "refusal": None}], "messages.1.content"),
        ([{"role": "assistant", "content": None, "refusal": ""}], "messages.1.content"),
        ([{"role": "assistant", "content": [{"type": "text"}]}], "messages.1.content.0.text"),
        ([{"role": "assistant", "content": [{"type": "input_audio"}]}], "messages.1.content.0.type"),
    ],
)
def test_what_is_no_conversation_is_refused(messages: list[dict[str, Any]], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request(*messages)
    assert caught.value.param == param


def test_arguments_become_objects_and_results_know_what_was_called() -> None:
    assert flat(calling(call()), result()) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": {"city": "Paris"}},
                }
            ],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "call_1", "name": "get_weather"},
    ]


def test_arguments_may_be_given_as_an_object() -> None:
    given = {"city": "Århus", "days": 10**30}
    asked = flat(calling(call(arguments=given)))  # type: ignore[arg-type]
    assert asked[0]["tool_calls"][0]["function"]["arguments"] == given


UNWRITABLE = ('{"a": 1e999}', '{"a": NaN}', '{"a": "\\ud800"}')
"""What JSON as it goes to the tokenizer cannot hold, though a model may have called a tool with it."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", {}), ("{broken", "{broken"), ("[1]", "[1]"), (" {} ", {}), *((text, text) for text in UNWRITABLE)],
)
def test_arguments_that_are_no_object_stay_what_they_are(text: str, shown: object) -> None:
    assert flat(calling(call(arguments=text)))[0]["tool_calls"][0]["function"]["arguments"] == shown


def test_the_older_form_becomes_the_newer_one() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "now", "arguments": "{}"}}
    message, answer = flat(old, {"role": "function", "name": "now", "content": "noon"})
    assert message["tool_calls"] == [
        {"id": "call_now", "type": "function", "function": {"name": "now", "arguments": {}}}
    ]
    assert answer == {"role": "tool", "content": "noon", "tool_call_id": "call_now", "name": "now"}


@pytest.mark.parametrize(
    ("id_", "short"), [("call_0123456789abc", "456789abc"), ("a-b", "0000000ab"), ("abcdef123", "abcdef123")]
)
def test_ids_from_elsewhere_fit_mistrals_templates(id_: str, short: str) -> None:
    message, answer = flat(calling(call(id_)), result(id_), calls=ToolCallParser.MISTRAL)
    assert message["tool_calls"][0]["id"] == answer["tool_call_id"] == short


def test_thinking_and_text_parts_are_kept() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert flat({"role": "assistant", "content": parts, "reasoning_content": "hm", "tool_calls": []}) == [
        {"role": "assistant", "content": "a\nb", "reasoning_content": "hm"}
    ]


@pytest.mark.parametrize("given", [{"reasoning": "hm"}, {"reasoning": "hm", "reasoning_content": "hm"}])
def test_thinking_comes_back_under_either_name(given: dict[str, str]) -> None:
    assert flat({"role": "assistant", "content": "a", **given}) == [
        {"role": "assistant", "content": "a", "reasoning_content": "hm"}
    ]


def test_what_the_assistant_refused_is_part_of_what_it_said() -> None:
    parts = [{"type": "text", "text": "Hm."}, {"type": "refusal", "refusal": "No."}]
    assert flat({"role": "assistant", "content": parts}) == [{"role": "assistant", "content": "Hm.\nNo."}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"refusal": "No."}, "No."),
        ({"content": None, "refusal": "No."}, "No."),
        ({"content": "", "refusal": "No."}, "No."),
        ({"content": "Hm.", "refusal": "No."}, "Hm.\nNo."),
        ({"content": [{"type": "text", "text": "Hm."}], "refusal": "No."}, "Hm.\nNo."),
        ({"content": "Yes.", "refusal": None}, "Yes."),
        ({"content": "Yes.", "refusal": ""}, "Yes."),
    ],
)
def test_a_refusal_beside_the_content_is_what_the_assistant_said(given: dict[str, Any], said: str) -> None:
    assert flat({"role": "assistant", **given}) == [{"role": "assistant", "content": said}]


def test_a_refusal_stands_beside_calls() -> None:
    (message,) = flat(calling(call(), refusal="Not that."))
    assert (message["content"], len(message["tool_calls"])) == ("Not that.", 1)


def test_how_long_the_parts_are_is_known_of_messages_with_several() -> None:
    said = [{"type": "text", "text": "Hm 😀"}, {"type": "text", "text": ""}, {"type": "refusal", "refusal": "No.\n"}]
    asked = request(
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": said},
        calling(call()),
        result(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    )
    assert part_lengths(asked.messages or ()) == {2: (4, 0, 4), 4: (1, 1)}


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"content": "Hm.", "refusal": "No!!"}, ["Hm.", "No!!"]),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}], "refusal": "No"}, ["a", "", "No"]),
        ({"content": None, "refusal": "No!!"}, ["No!!"]),
        ({"content": "", "refusal": "No!!"}, ["No!!"]),
        ({"content": [{"type": "text", "text": ""}], "refusal": "No!!"}, ["No!!"]),
    ],
)
def test_a_refusal_is_the_last_part(given: dict[str, Any], parts: list[str]) -> None:
    message = {"role": "assistant", **given}
    assert flat(message)[0]["content"] == "\n".join(parts)
    lengths = {1: tuple(map(len, parts))} if len(parts) > 1 else {}
    assert part_lengths(request(message).conversation) == lengths


@pytest.mark.parametrize("text", ["[" * 3_000 + "]" * 3_000, "[" * 200 + "]" * 200])
def test_arguments_that_are_nested_too_deeply_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="level") as refused:
        check_arguments(text, "messages.0.tool_calls.0.function.arguments")
    assert refused.value.param == "messages.0.tool_calls.0.function.arguments"


def test_the_arguments_of_a_call_are_looked_at() -> None:
    deep = calling(call(arguments="[" * 200 + "]" * 200))
    with pytest.raises(InvalidRequest, match="level") as refused:
        request(USER, deep, result())
    assert str(refused.value.param).endswith(".tool_calls.0.function.arguments")


def test_arguments_that_are_no_json_are_a_text() -> None:
    check_arguments("[" * 200, "messages.0")
