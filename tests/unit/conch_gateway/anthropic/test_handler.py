"""`POST /v1/messages` and `/v1/messages/count_tokens`, on fakes."""

import re
from typing import Any

import orjson
import pytest
from anthropic.types import MessageTokensCount

from conch_contracts.anthropic.answer import ErrorAnswer
from conch_contracts.messages.generation import Api, GenerateRequest
from conch_contracts.messages.message import from_json
from conch_contracts.names import CHECK_GRAMMAR_PATH, GENERATE_PATH, PREPARE_PATH
from conch_contracts.records import ChatProfile, Dialect, Profile
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.http.auth import ApiKeys
from testkit.gateway.fakes import (
    Answered,
    FakeAnswer,
    Gateway,
    answered,
    gateway,
    lost,
    prepared,
    refused,
    route,
    snapshot,
    streamed,
)

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
SAID = [{"role": "user", "content": "hi"}]
ASKED: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 7, "messages": SAID}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}
TOOLS = {"tools": [TOOL]}
STREAM = {**ASKED, "stream": True}
START = b'event: message_start\ndata: {"type":"message_start"}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
CALLER = ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True)
THINKER = ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True, reasoning=ReasoningParser.THINK)


def served(*frames: bytes | Exception, **more: Any) -> Gateway:
    worker = streamed(*frames) if frames else answered(b'{"id":"msg_1"}')
    return gateway({GENERATE_PATH: worker}, **more)


def model(**changes: Any) -> dict[str, Any]:
    return {"known": snapshot(route(**{"max_model_len": 4096} | changes))}


async def asked(document: dict[str, Any], **more: Any) -> tuple[GenerateRequest, dict[str, Any]]:
    """Return what the worker and the tokenizer are asked for a request."""
    running = served(**more)
    answer = await running.client.post(PATH, document)
    assert answer.status == 200, answer.body
    (generate,) = (post.body for post in running.upstream.posts if post.path == GENERATE_PATH)
    (prepare,) = running.upstream.sent(PREPARE_PATH)
    return from_json(GenerateRequest, generate), prepare["chat"]


def error_of(answer: Answered) -> dict[str, str]:
    """Return the error, which must have Anthropic's form and the request's id."""
    told = ErrorAnswer.model_validate_json(answer.body)
    assert told.request_id.encode() == answer.headers[b"request-id"] == answer.headers[b"x-request-id"]
    return {"type": told.error.type, "message": told.error.message}


async def test_the_worker_is_told_everything() -> None:
    said = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["a", "b"], "system": "Be brief."}
    message, chat = await asked({**ASKED, **said, "stream": False})
    assert re.fullmatch("msg_[0-9a-f]{32}", message.response_id)
    sampling = message.sampling
    assert (message.api, sampling.max_tokens, message.cut_to_context) == (Api.MESSAGES, 7, False)
    assert (sampling.temperature, sampling.top_p, sampling.top_k, message.stop) == (0.5, 0.9, 5, ("a", "b"))
    assert chat["messages"] == [{"role": "system", "content": "Be brief."}, *SAID]
    assert (chat["add_generation_prompt"], chat["continue_final_message"]) == (True, False)


async def test_what_only_asks_a_provider_for_its_own_service_is_left_alone() -> None:
    more = {
        "service_tier": "auto",
        "speed": "fast",
        "inference_geo": "eu",
        "diagnostics": {},
        "context_management": {"edits": []},
        "cache_control": {"type": "ephemeral"},
        "container": None,
        "mcp_servers": [],
        "stop": None,
        "metadata": {"user_id": "ann"},
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    }
    tool = {**TOOL, "type": "custom", "cache_control": {}, "eager_input_streaming": True, "defer_loading": True}
    message, _ = await asked({**ASKED, **more, "tools": [tool]}, **model(chat=CALLER))
    assert message.sampling.max_tokens == 7


@pytest.mark.parametrize(
    ("choice", "offered", "demanded", "several"),
    [
        (None, True, False, True),
        ({"type": "auto"}, True, False, True),
        ({"type": "auto", "disable_parallel_tool_use": True}, True, False, False),
        ({"type": "any"}, True, True, True),
        ({"type": "tool", "name": "f"}, True, True, True),
        ({"type": "none"}, False, False, True),
    ],
)
async def test_tools_are_those_of_chat(choice: object, offered: bool, demanded: bool, several: bool) -> None:
    message, chat = await asked({**ASKED, **TOOLS, "tool_choice": choice}, **model(chat=CALLER))
    assert bool(chat["tools"]) is offered
    calls = message.parsing.calls if message.parsing else None
    assert (calls is not None) is offered
    if calls is not None:
        assert (calls.demanded, calls.several) == (demanded, several)


@pytest.mark.parametrize(
    ("thinking", "switch", "shown"),
    [
        (None, None, True),
        ({"type": "disabled"}, False, True),
        ({"type": "adaptive"}, None, True),
        ({"type": "adaptive", "display": "omitted"}, None, False),
        ({"type": "adaptive", "display": "updates"}, None, False),
        ({"type": "enabled", "budget_tokens": 1024}, True, True),
    ],
)
async def test_thinking_is_switched_limited_and_hidden(thinking: Any, switch: bool | None, shown: bool) -> None:
    marks = orjson.dumps({"prompts": [{"ids": [1], "text": "x"}], "marks": [[5], [6]]})
    scripts = {GENERATE_PATH: answered(b"{}"), PREPARE_PATH: lambda _: FakeAnswer(pieces=(marks,))}
    running = gateway(scripts, **model(chat=THINKER))
    answer = await running.client.post(PATH, {**ASKED, "max_tokens": 2000, "thinking": thinking})
    assert answer.status == 200, answer.body
    (prepare,), (generate,) = running.upstream.sent(PREPARE_PATH), running.upstream.sent(GENERATE_PATH)
    assert prepare["chat"]["template_kwargs"].get("enable_thinking") is switch
    assert generate["parsing"]["thinking"].get("show", True) is shown
    limit = generate["sampling"].get("thinking")
    assert (limit["tokens"] if limit else None) == (thinking or {}).get("budget_tokens")


@pytest.mark.parametrize("known", [{"chat": CALLER}, {"chat": THINKER, "dialect": Dialect.TENSORRTLLM}])
async def test_a_limit_on_thinking_that_cannot_be_kept_refuses_nothing(known: dict[str, Any]) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    message, _ = await asked({**ASKED, "max_tokens": 2000, "thinking": thinking}, **model(**known))
    assert message.sampling.thinking is None


async def test_the_form_and_the_effort_of_an_answer_are_those_of_chat() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    config = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    message, chat = await asked({**ASKED, "output_config": config}, **model(chat=CALLER))
    assert message.sampling.grammar is not None
    assert message.grammar_param == "response_format.json_schema.schema"
    assert chat["template_kwargs"]["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("turns", "goes_on", "length"),
    [
        ([*SAID, {"role": "assistant", "content": "The"}], True, 2),
        ([*SAID, {"role": "assistant", "content": ""}], False, 1),
        ([*SAID, {"role": "assistant", "content": []}], False, 1),
    ],
)
async def test_the_answer_goes_on_in_the_assistants_last_turn(turns: list[Any], goes_on: bool, length: int) -> None:
    _, chat = await asked({**ASKED, "messages": turns})
    assert (chat["continue_final_message"], chat["add_generation_prompt"]) == (goes_on, not goes_on)
    assert len(chat["messages"]) == length


async def test_a_limit_that_the_context_cannot_hold_is_lowered_and_the_worker_knows() -> None:
    message, _ = await asked({**ASKED, "max_tokens": 100_000})
    assert (message.sampling.max_tokens, message.cut_to_context) == (61, True)


async def test_a_prompt_without_room_for_an_answer_is_refused() -> None:
    answer = await gateway({PREPARE_PATH: prepared(64)}).client.post(PATH, ASKED)
    assert answer.status == 400
    assert "context length is 64 tokens" in error_of(answer)["message"]


@pytest.mark.parametrize("cut", [1, 7, 50, 10_000])
async def test_a_stream_is_relayed_as_it_is_wherever_it_is_cut(cut: int) -> None:
    raw = START + b": working\n\n" + STOP + USAGE
    running = served(*(raw[at : at + cut] for at in range(0, len(raw), cut)))
    answer = await running.client.post(PATH, STREAM)
    assert answer.body == START + STOP
    labels = {"endpoint": "messages", "model": "tiny-chat", "status": "200", "outcome": "ok"}
    assert running.registry.get_sample_value("conch_gateway_requests_total", labels) == 1
    tokens = {"model": "tiny-chat", "kind": "completion"}
    assert running.registry.get_sample_value("conch_gateway_tokens_total", tokens) == 2


@pytest.mark.parametrize("frames", [(START, lost(started=True)), (START,), (START, b": usage {}\n\n")])
async def test_a_stream_that_breaks_ends_with_an_error_of_this_api(frames: tuple[bytes | Exception, ...]) -> None:
    answer = await served(*frames).client.post(PATH, STREAM)
    name, data, *_ = answer.body.removeprefix(START).split(b"\n")
    assert name == b"event: error"
    told = ErrorAnswer.model_validate_json(data.removeprefix(b"data: "))
    assert told.error.type == "api_error"


async def test_a_workers_own_error_ends_the_stream_once() -> None:
    failed = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"No."},"request_id":"r"}\n\n'
    running = served(START, failed + USAGE)
    assert (await running.client.post(PATH, STREAM)).body == START + failed
    labels = {"endpoint": "messages", "model": "tiny-chat", "status": "200", "outcome": "broken"}
    assert running.registry.get_sample_value("conch_gateway_requests_total", labels) == 1


async def test_a_count_is_the_length_of_the_prompt_that_the_model_would_read() -> None:
    running = gateway({PREPARE_PATH: prepared(100)}, **model(chat=CALLER, max_model_len=64))
    conversation = {"system": "a", "tools": [TOOL], "messages": SAID}
    answer = await running.client.post(COUNT, {"model": "tiny-chat", **conversation})
    assert (answer.status, MessageTokensCount.model_validate_json(answer.body).input_tokens) == (200, 100)
    (counted,) = running.upstream.sent(PREPARE_PATH)
    assert "context" not in counted or counted["context"] is None
    await running.client.post(PATH, {**ASKED, **conversation})
    assert running.upstream.sent(PREPARE_PATH)[1]["chat"] == counted["chat"]


@pytest.mark.parametrize(
    ("known", "change", "param"),
    [
        ({}, TOOLS, "tools"),
        (
            {"chat": CALLER, "dialect": Dialect.FASTERTRANSFORMER},
            {"tools": [{**TOOL, "strict": True}]},
            "tools.0.strict",
        ),
        (
            {"chat": CALLER, "dialect": Dialect.FASTERTRANSFORMER},
            {**TOOLS, "tool_choice": {"type": "any"}},
            "tool_choice",
        ),
    ],
)
async def test_what_a_model_cannot_do_is_told_in_this_apis_names(
    known: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    answer = await served(**model(**known)).client.post(PATH, {**ASKED, **change})
    assert answer.status == 400
    assert f"'{param}'" in error_of(answer)["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", PATH, b"{", 400, "invalid_request_error"),
        ("POST", PATH, orjson.dumps({**ASKED, "model": "nope"}), 404, "not_found_error"),
        ("POST", PATH + "/batches", b"{}", 404, "not_found_error"),
        ("GET", PATH, b"", 405, "invalid_request_error"),
        ("POST", PATH, b" " * 1025, 413, "request_too_large"),
        ("POST", COUNT, b" " * 1025, 413, "request_too_large"),
        ("POST", COUNT, b"[]", 400, "invalid_request_error"),
    ],
)
async def test_every_error_on_these_paths_has_this_apis_form(
    method: str, path: str, body: bytes, status: int, kind: str
) -> None:
    answer = await served(max_body_bytes=1024).client.call(method, path, body)
    assert (answer.status, error_of(answer)["type"]) == (status, kind)


@pytest.mark.parametrize(
    ("refusal", "status", "kind"),
    [
        (refused(400, "No.", param="messages"), 400, "invalid_request_error"),
        (refused(429, "Full."), 429, "rate_limit_error"),
        (refused(502, "Broken."), 502, "api_error"),
        (refused(503, "Away."), 529, "overloaded_error"),
        (refused(504, "Late."), 504, "timeout_error"),
    ],
)
async def test_faults_before_the_first_byte_are_statuses_of_this_api(
    refusal: FakeAnswer, status: int, kind: str
) -> None:
    answer = await gateway({GENERATE_PATH: lambda _: refusal}).client.post(PATH, STREAM)
    error = error_of(answer)
    assert error["type"] == kind
    assert answer.status == status
    if status in (429, 529):
        assert answer.headers[b"retry-after"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"authorization", b"Bearer sk-a")], 200),
        ([(b"x-api-key", b"sk-a")], 200),
        ([(b"authorization", b"Bearer sk-a"), (b"x-api-key", b"other")], 200),
        ([(b"authorization", b"Bearer other"), (b"x-api-key", b"sk-a")], 401),
        ([(b"authorization", b"Basic sk-a")], 401),
        ([(b"x-api-key", b"sk-a"), (b"x-api-key", b"sk-a")], 401),
        ([(b"x-api-key", b"")], 401),
        ([], 401),
    ],
)
async def test_a_key_may_come_in_either_header(tmp_path: Any, headers: list[tuple[bytes, bytes]], status: int) -> None:
    file = tmp_path / "keys"
    file.write_text("sk-a\n")
    keys = ApiKeys(file)
    await keys.load()
    answer = await served(keys=keys).client.call("POST", PATH, orjson.dumps(ASKED), headers)
    assert answer.status == status
    if status == 401:
        assert error_of(answer)["type"] == "authentication_error"


async def test_any_version_and_beta_of_the_api_is_taken() -> None:
    headers = [(b"anthropic-version", b"2031-01-01"), (b"anthropic-beta", b"what-comes-2031-01-01,other")]
    answer = await served().client.call("POST", PATH, orjson.dumps(ASKED), headers)
    assert answer.status == 200


@pytest.mark.parametrize("profile", list(Profile))
async def test_the_habits_of_older_servers_change_nothing_here(profile: Profile) -> None:
    message, _ = await asked(ASKED, **model(profile=profile))
    assert (message.details, message.response_id[:4]) == (None, "msg_")


async def test_clients_find_that_there_is_a_server() -> None:
    assert (await served().client.call("HEAD", "/")).status == 200


async def test_a_form_that_cannot_be_kept_is_told_in_this_apis_names() -> None:
    bad = refused(400, "odd", param="response_format")
    running = gateway({CHECK_GRAMMAR_PATH: lambda _: bad}, **model())
    config = {"format": {"type": "json_schema", "schema": {"type": "odd"}}}
    answer = await running.client.post(PATH, {**ASKED, "output_config": config})
    assert (answer.status, error_of(answer)["message"]) == (
        400,
        "Invalid value for 'output_config.format.schema': odd.",
    )


@pytest.mark.parametrize("parameter", [{"response_format": {"type": "json_object"}}, {"stop": ["a"]}, {"n": 2}])
async def test_a_count_refuses_what_an_answer_does(parameter: dict[str, Any]) -> None:
    answer = await served().client.post(COUNT, {"model": "tiny-chat", "messages": SAID, **parameter})
    assert (answer.status, *parameter) == (400, *(name for name in parameter if name in error_of(answer)["message"]))


async def test_what_belongs_to_an_answer_may_stand_beside_a_prompt_that_is_counted() -> None:
    answer = await served().client.post(COUNT, {**STREAM, "temperature": 0, "stop_sequences": ["a"]})
    assert answer.status == 200


async def test_the_sdk_is_told_that_there_are_no_threads() -> None:
    answer = await served().client.post(PATH, {**ASKED, "thread": {"type": "create"}})
    assert answer.status == 400
    assert orjson.loads(answer.body)["error"]["details"] == {"error_code": "thread_unsupported_request"}
