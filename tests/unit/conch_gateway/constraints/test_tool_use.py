"""Tools in chat requests: what is refused, what the template sees, and how calls are read or enforced."""

from contextlib import nullcontext
from typing import Any

import pytest

from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import ChatProfile, Dialect, Route
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.constraints import tool_use
from conch_gateway.requests import tokenizer_request, validation
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route

HELLO = [{"role": "user", "content": "hi"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "x": {}}}
CLOSED = {"additionalProperties": False}


def tool(name: str = "get_weather", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": WEATHER, **function}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


def chat(**fields: Any) -> ChatCompletionRequest:
    return validation.chat({"messages": HELLO, **fields}).request


def model(parser: ToolCallParser = ToolCallParser.HERMES, *, takes_tools: bool = True, **changes: Any) -> Route:
    return route(chat=ChatProfile(tool_calls=parser, takes_tools=takes_tools), **changes)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools.0.function"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools.0.type"),
        ({"tools": [tool("../x")]}, "tools.0.function.name"),
        ({"tools": [tool("a" * 129)]}, "tools.0.function.name"),
        ({"tools": [tool(parameters=[1])]}, "tools.0.function.parameters"),
        ({"tools": [tool(parameters="{}")]}, "tools.0.function.parameters"),
        ({"tools": [tool(parameters={"type": "strin"})]}, "tools.0.function.parameters.type"),
        (
            {"tools": [tool(), tool(name="g", parameters={"properties": {"a": 5}})], "tool_choice": "auto"},
            "tools.1.function.parameters.properties.a",
        ),
        ({"tools": [tool(strict="yes")]}, "tools.0.function.strict"),
        ({"tools": [tool()] * 10_000}, "tools"),
        ({"tools": [tool(), tool()]}, "tools.1.function.name"),
        ({"tools": {}}, "tools"),
        ({"tools": [tool()], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": named("search")}, "tool_choice.function.name"),
        ({"tools": [tool()], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        (
            {"tools": [tool()], "tool_choice": allowed("auto", "get_weather", "search")},
            "tool_choice.allowed_tools.tools.1.function.name",
        ),
        ({"tools": [tool()], "tool_choice": allowed("always", "get_weather")}, "tool_choice.allowed_tools.mode"),
        ({"tools": [tool()], "tool_choice": allowed("auto")}, "tool_choice.allowed_tools.tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tools": None, "tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": named("search")}, "tool_choice.function.name"),
        ({"tools": [tool()], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ],
)
def test_tools_that_are_wrong_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    assert caught.value.param == param
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("fields", "known", "param", "says"),
    [
        ({}, model(takes_tools=False), "tools", "has no place for tools"),
        ({}, model(ToolCallParser.NONE), "tools", "set toolCallParser"),
        (
            {"tool_choice": "required"},
            model(dialect=Dialect.FASTERTRANSFORMER),
            "tool_choice",
            r"\(fastertransformer\) cannot be made to write a call",
        ),
        (
            {"tools": [tool(), tool("now", strict=True)]},
            model(dialect=Dialect.FASTERTRANSFORMER),
            "tools.1.function.strict",
            r"\(fastertransformer\) cannot keep arguments to a schema; leave out 'strict'",
        ),
        (
            {"tools": [tool(strict=True)]},
            model(ToolCallParser.PYTHONIC),
            "tools.0.function.strict",
            r"form of calls \(pythonic\) cannot be kept to a schema",
        ),
    ],
)
def test_tools_that_a_model_cannot_use_are_refused(fields: dict[str, Any], known: Route, param: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        tokenizer_request.chat(chat(**{"tools": [tool()], **fields}), known)
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": None},
        {"tool_choice": "none"},
        {"tools": []},
        {"tools": [], "tool_choice": "auto"},
        {"tools": [tool()], "tool_choice": "none"},
    ],
)
def test_a_model_without_tools_serves_requests_that_offer_none(fields: dict[str, Any]) -> None:
    request, known = chat(**fields), model(ToolCallParser.NONE, takes_tools=False)
    work = tokenizer_request.chat(request, known)
    assert work.chat is not None
    assert work.chat.tools is None
    assert tool_use.calls(request, known) is None


def test_the_template_sees_each_tool_without_what_is_only_for_the_server() -> None:
    tools = [tool(description="Weather.", strict=True), {"type": "function", "function": {"name": "now"}}]
    work = tokenizer_request.chat(chat(tools=tools), model())
    assert work.chat is not None
    assert work.chat.tools == (
        {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": WEATHER}},
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    )


@pytest.mark.parametrize(
    ("choice", "parser", "read"),
    [
        ("auto", ToolCallParser.MISTRAL, ToolCallParser.MISTRAL),
        ("required", ToolCallParser.HERMES, ToolCallParser.HERMES),
        ("required", ToolCallParser.LLAMA3, ToolCallParser.LLAMA3),
        ("required", ToolCallParser.MISTRAL, ToolCallParser.JSON),
        ("required", ToolCallParser.NONE, ToolCallParser.JSON),
        (named("get_weather"), ToolCallParser.QWEN3_CODER, ToolCallParser.JSON),
    ],
)
def test_calls_are_read_in_the_models_form_or_in_the_one_that_is_enforced(
    choice: Any, parser: ToolCallParser, read: ToolCallParser
) -> None:
    calls = tool_use.calls(chat(tools=[tool()], tool_choice=choice), model(parser))
    assert calls is not None
    assert (calls.parser, calls.names, calls.several, calls.typed_parameters) == (read, ("get_weather",), True, {})


def test_values_without_quotes_are_read_by_the_types_of_the_schema() -> None:
    known = model(ToolCallParser.QWEN3_CODER)
    calls = tool_use.calls(chat(tools=[tool()], parallel_tool_calls=False), known)
    assert calls is not None
    assert calls.typed_parameters == {"get_weather": {"city": "string", "days": "integer", "x": "any"}}
    assert not calls.several


def test_values_that_are_held_to_a_schema_are_json_unless_any_text_will_do() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "maxLength": 3}}}
    request = chat(tools=[tool(parameters=schema, strict=True)])
    calls = tool_use.calls(request, model(ToolCallParser.GLM))
    assert calls is not None
    assert calls.typed_parameters == {"get_weather": {"a": "string", "b": "any"}}


def form(choice: Any, parser: ToolCallParser, **fields: Any) -> Any:
    request = chat(tools=[tool(), tool("now", parameters=None)], tool_choice=choice, **fields)
    found = tool_use.form(request, model(parser))
    assert found is not None
    return found


def test_a_demanded_call_is_written_in_the_models_form() -> None:
    hermes = form("required", ToolCallParser.HERMES)
    assert (hermes["at_least_one"], hermes["stop_after_first"]) == (True, False)
    assert [tag["begin"] for tag in hermes["tags"]] == [
        f'<tool_call>\n{{"name": "{name}", "arguments": ' for name in ("get_weather", "now")
    ]
    assert {tag["end"] for tag in hermes["tags"]} == {"}\n</tool_call>"}
    schemas = [tag["content"]["json_schema"] for tag in hermes["tags"]]
    assert schemas == [WEATHER | CLOSED, {"type": "object", "properties": {}} | CLOSED]
    llama = form("required", ToolCallParser.LLAMA3, parallel_tool_calls=False)
    assert (llama["separator"], llama["stop_after_first"]) == ("; ", True)
    assert llama["tags"][1]["begin"] == '{"name": "now", "parameters": '


def test_a_named_tool_is_called_once_and_no_other_one() -> None:
    first, calls, last = form(named("now"), ToolCallParser.NONE)["elements"]
    assert (first["value"], last["value"]) == ("[", "]")
    assert [tag["begin"] for tag in calls["tags"]] == ['{"name": "now", "parameters": ']
    assert calls["stop_after_first"]


@pytest.mark.parametrize(
    ("parser", "known"),
    [(ToolCallParser.HERMES, True), (ToolCallParser.MISTRAL, False), (ToolCallParser.QWEN3_CODER, False)],
)
def test_a_free_model_can_be_held_to_its_own_form_alone(parser: ToolCallParser, known: bool) -> None:
    assert (tool_use.form(chat(tools=[tool()]), model(parser)) is not None) is known
    assert tool_use.form(chat(), model(parser)) is None


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"tools": [tool(strict=True)]}, True),
        ({"tools": [tool(), tool("now", strict=True)]}, True),
        ({"tools": [tool(strict=False)]}, False),
        ({"tools": [tool()]}, False),
        ({"tools": [tool(strict=True)], "tool_choice": "none"}, False),
        ({"tools": [tool(strict=True)], "tool_choice": "required"}, False),
        ({"tools": [tool(), tool("now", strict=True)], "tool_choice": allowed("auto", "get_weather")}, False),
    ],
)
def test_free_calls_are_held_to_schemas_where_a_tool_on_offer_is_strict(fields: dict[str, Any], held: bool) -> None:
    assert (tool_use.optional_calls_form(chat(**fields), model()) is not None) is held


def test_a_strict_tool_has_its_schema_and_any_other_takes_an_object() -> None:
    request = chat(tools=[tool(strict=True), tool("now")], parallel_tool_calls=False)
    found: Any = tool_use.optional_calls_form(request, model())
    schemas = [tag["content"]["json_schema"] for tag in found["tags"]]
    assert schemas == [WEATHER | CLOSED, {"type": "object"}]
    assert (found["triggers"], found["stop_after_first"]) == (["<tool_call>"], True)


@pytest.mark.parametrize(("mode", "demanded"), [("auto", []), ("required", ["now"])])
def test_only_allowed_tools_are_shown_and_called(mode: str, demanded: list[str]) -> None:
    request = chat(tools=[tool(), tool("now")], tool_choice=allowed(mode, "now"))
    assert [one.function.name for one in tool_use.offered(request)] == ["now"]
    assert [one.function.name for one in tool_use.demanded(request)] == demanded
    calls = tool_use.calls(request, model())
    assert calls is not None
    assert (calls.names, calls.demanded) == (("now",), bool(demanded))


@pytest.mark.parametrize("parser", [ToolCallParser.QWEN3_CODER, ToolCallParser.GLM])
@pytest.mark.parametrize(
    ("parameters", "held"),
    [
        ({**WEATHER, "required": ["city"]}, True),
        ({**WEATHER, "required": ["town"]}, False),
        ({"type": "object", "properties": {"a b": {}}}, False),
        ({"type": "object", "properties": {"a>b": {}}}, False),
        ({**WEATHER, "minProperties": 1}, False),
        ({"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {}}}, False),
    ],
)
def test_arguments_in_tags_are_held_to_lists_of_properties_alone(
    parser: ToolCallParser, parameters: dict[str, Any], held: bool
) -> None:
    request, known = chat(tools=[tool(parameters=parameters, strict=True)]), model(parser)
    with nullcontext() if held else pytest.raises(InvalidRequest, match="more than a list of properties") as caught:
        assert tool_use.optional_calls_form(request, known) is not None
    if not held:
        assert caught.value.code == "unsupported_parameter"
