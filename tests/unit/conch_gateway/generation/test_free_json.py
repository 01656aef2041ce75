"""JSON of the client's own that a request carries: numbers of any size reach the services, depth has one bound."""

import json
from typing import Any

import pytest

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import from_json, to_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.names import CHECK_GRAMMAR_PATH, GENERATE_PATH, TOKENIZE_PATH
from conch_contracts.records import ChatProfile
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.errors.complexity import MAX_TEXTS
from conch_gateway.errors.nesting import MAX_DEPTH
from testkit.gateway.fakes import answered, gateway, route, snapshot
from testkit.gateway.memory_responses import MemoryResponses

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
HUGE = 10**400
"""Beyond every float, and a grammar of numbers allows it."""
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "maximum": HUGE}}}
NAMED = {"name": "n", "schema": SCHEMA}
DEEP_TEXTS = [(255, "list"), (40_000, "list"), (255, "dict"), (MAX_DEPTH + 1, "dict")]


def called(arguments: object) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]}


def called_before(arguments: object) -> dict[str, Any]:
    item = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments}
    return {"input": [USER, item, {"type": "function_call_output", "call_id": "c1", "output": "1"}]}


def nested(levels: int, kind: str = "dict") -> str:
    if kind == "list":
        return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


def served() -> Any:
    known = snapshot(route(chat=ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True)))
    scripts = {GENERATE_PATH: answered(b'{"output":[]}'), CHECK_GRAMMAR_PATH: answered(b"{}")}
    return gateway(scripts, known=known, responses=MemoryResponses())


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (CHAT, called(json.dumps({"a": HUGE}))),
        (CHAT, called({"a": [HUGE]})),
        (CHAT, {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]}),
        (CHAT, {"messages": [USER], "chat_template_kwargs": {"options": {"b": -HUGE}}}),
        (RESPONSES, called_before(json.dumps({"a": HUGE}))),
        (RESPONSES, called_before({"a": HUGE})),
        (RESPONSES, {"input": "hi", "chat_template_kwargs": {"options": {"a": HUGE}}}),
        (RESPONSES, {"input": "hi", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]}),
    ],
)
async def test_a_template_gets_numbers_of_any_size(path: str, asked: dict[str, Any]) -> None:
    running = served()
    answer = await running.client.post(path, {"model": "tiny-chat", **asked})
    assert answer.status == 200, answer.body
    sent = from_json(PrepareRequest, running.upstream.posts[0].body)
    assert str(HUGE) in to_json(sent).decode()


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (CHAT, {"messages": [USER], "structured_outputs": {"json": SCHEMA}}),
        (CHAT, {"messages": [USER], "guided_json": json.dumps(SCHEMA)}),
        (CHAT, {"messages": [USER], "response_format": {"type": "json_schema", "json_schema": NAMED}}),
        (RESPONSES, {"input": "hi", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
    ],
)
async def test_an_engine_gets_schemas_with_numbers_of_any_size(path: str, asked: dict[str, Any]) -> None:
    running = served()
    answer = await running.client.post(path, {"model": "tiny-chat", **asked})
    assert answer.status == 200, answer.body
    sent = from_json(GenerateRequest, running.upstream.posts[-1].body)
    assert sent.sampling.grammar is not None
    assert json.loads(sent.sampling.grammar.definition)["properties"]["a"]["maximum"] == HUGE
    if path == RESPONSES:
        assert json.loads(sent.response_fields)["text"]["format"]["schema"] == SCHEMA


async def test_tokenize_takes_numbers_of_any_size() -> None:
    running = gateway({TOKENIZE_PATH: answered(b'{"tokens":[1]}')})
    asked = {"model": "tiny-chat", "messages": [USER], "chat_template_kwargs": {"options": {"a": HUGE}}}
    answer = await running.client.post("/tokenize", asked)
    assert answer.status == 200, answer.body
    assert str(HUGE).encode() in running.upstream.posts[0].body


@pytest.mark.parametrize(("levels", "kind"), DEEP_TEXTS)
@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        (CHAT, called, "messages.1.tool_calls.0.function.arguments"),
        (RESPONSES, called_before, "input.1.arguments"),
        (CHAT, lambda text: {"messages": [USER], "guided_json": text}, "guided_json"),
        (
            CHAT,
            lambda text: {
                "messages": [{"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": text}}]
            },
            "messages.0.function_call.arguments",
        ),
    ],
    ids=["chat", "responses", "schema", "older"],
)
async def test_json_in_a_text_has_the_bound_of_bodies(
    path: str, asked: Any, param: str, levels: int, kind: str
) -> None:
    answer = await served().client.post(path, {"model": "tiny-chat", **asked(nested(levels, kind))})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, "too_deep")


@pytest.mark.parametrize(
    ("path", "wrapped", "param"),
    [(CHAT, called, "messages.1.tool_calls.0.function.arguments"), (RESPONSES, called_before, "input.1.arguments")],
)
async def test_json_in_a_text_may_hold_as_much_as_a_body(path: str, wrapped: Any, param: str) -> None:
    for texts, status in ((MAX_TEXTS - 1, 200), (MAX_TEXTS, 400)):
        text = '{"a":[' + ",".join(['"[{,"'] * texts) + "]}"
        answer = await served().client.post(path, {"model": "tiny-chat", **wrapped(text)})
        assert answer.status == status, answer.body[:500]
    assert (answer.error["param"], answer.error["code"]) == (param, "too_complex")


async def test_json_in_a_text_may_be_as_deep_as_a_body() -> None:
    answer = await served().client.post(CHAT, {"model": "tiny-chat", **called(nested(MAX_DEPTH))})
    assert answer.status == 200, answer.body


async def test_brackets_in_a_text_that_is_no_json_are_no_depth() -> None:
    answer = await served().client.post(CHAT, {"model": "tiny-chat", **called("[" * MAX_DEPTH * 2 + "x")})
    assert answer.status == 200, answer.body


async def test_a_value_that_is_too_deep_is_named() -> None:
    asked = {"model": "tiny-chat", "messages": [USER], "chat_template_kwargs": json.loads(nested(MAX_DEPTH))}
    answer = await served().client.post(CHAT, asked)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "chat_template_kwargs", "too_deep")
