"""What is wrong with a request of the Messages API, and how it is named."""

import json
import re
import time
from typing import Any

import pytest

from conch_contracts.anthropic.content_blocks import Base64Source, ImageBlock
from conch_contracts.anthropic.request import MessagesRequest
from conch_contracts.records import ChatProfile
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.anthropic.chat_request import NAMES, resolve
from conch_gateway.anthropic.validation import validate
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route, snapshot

SAID = [{"role": "user", "content": "hi"}]
ASKED: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 7, "messages": SAID}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}
TOOLS = {"tools": [TOOL]}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "7"}
CALLER = ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True)


def turn(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(blocks)}]}


SOURCE = {"type": "base64", "media_type": "image/png", "data": "aa"}
PICTURE = {"type": "image", "source": SOURCE}
TEXT = {"type": "text", "text": "a"}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aa"}}
CALLED = {"role": "assistant", "content": [CALL]}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": None}, "max_tokens"),
    ({"model": ""}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages.0.role"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content"),
    (turn(), "messages.0.content"),
    (turn({"type": "text"}), "messages.0.content.0.text"),
    (turn(PICTURE), "messages.0.content.0.source"),
    (turn({"type": "image", "source": {"type": "file", "file_id": "f"}}), "messages.0.content.0.source.type"),
    (
        turn({"type": "image", "source": {**SOURCE, "media_type": "image/tiff"}}),
        "messages.0.content.0.source.media_type",
    ),
    (turn({"type": "image_url", "image_url": {"url": "x"}}), "messages.0.content.0.type"),
    (turn(PICTURE, role="assistant"), "messages.0.content.0.type"),
    (turn(PDF), "messages.0.content.0.source.type"),
    (
        turn({"type": "document", "source": {"type": "content", "content": [TEXT, PICTURE]}}),
        "messages.0.content.0.source.content.1.type",
    ),
    (turn({"type": "server_tool_use", "id": "a", "name": "b", "input": {}}), "messages.0.content.0.type"),
    (turn({"type": "container_upload", "file_id": "a"}), "messages.0.content.0.type"),
    (turn(CALL), "messages.0.content.0.type"),
    (turn({"type": "thinking", "thinking": "a", "signature": ""}), "messages.0.content.0.type"),
    (turn(RESULT), "messages.0.content.0.tool_use_id"),
    (turn(RESULT, role="assistant"), "messages.0.content.0.type"),
    (
        {"messages": [*SAID, CALLED, *turn({**RESULT, "content": [PICTURE]})["messages"]]},
        "messages.2.content.0.content.0.source",
    ),
    (turn({**RESULT, "content": [PDF]}), "messages.0.content.0.content.0.source.type"),
    (turn({**RESULT, "content": [CALL]}), "messages.0.content.0.content.0.type"),
    ({"messages": [*SAID, CALLED]}, "messages.1.content"),
    ({"messages": [{"role": "system", "content": [RESULT]}, *SAID]}, "messages.0.content.0.type"),
    ({"system": [PICTURE]}, "system.0.type"),
    ({"system": 7}, "system"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0.type"),
    ({"tools": [{"name": "f"}]}, "tools.0.input_schema"),
    ({"tools": [{**TOOL, "name": "a b"}]}, "tools.0.name"),
    ({"tools": [{**TOOL, "input_schema": {"type": "object", "properties": 7}}]}, "tools.0.input_schema.properties"),
    ({"tools": [TOOL, TOOL]}, "tools.1.name"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({**TOOLS, "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice.name"),
    ({**TOOLS, "tool_choice": {"type": "some"}}, "tool_choice"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 7}, "max_tokens": 2000}, "thinking.budget_tokens"),
    ({"thinking": {"type": "always"}}, "thinking"),
    ({"output_config": {"effort": "none"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"temperature": 3}, "temperature"),
    ({"top_k": -1}, "top_k"),
    ({"stop_sequences": [""]}, "stop_sequences.0"),
    ({"stop_sequences": ["a"] * 17}, "stop_sequences"),
    ({"stream": "yes"}, "stream"),
    ({"container": "c"}, "container"),
    ({"thread": {"type": "create"}}, "thread"),
    ({"compaction": {}}, "compaction"),
    ({"fallbacks": ["m"]}, "fallbacks"),
    ({"output_format": {"type": "json_schema"}}, "output_format"),
    ({"functions": [{}]}, "functions"),
    ({"prompt": "a"}, "prompt"),
    ({"tools": [{**TOOL, "allowed_callers": ["code_execution_20250825"]}]}, "tools.0.allowed_callers"),
    ({"messages": [{"role": "assistant", "content": ""}]}, "messages"),
    (
        {
            "messages": [
                *SAID,
                {"role": "assistant", "content": [CALL] * 100},
                {"role": "assistant", "content": [CALL] * 29},
                *SAID,
            ]
        },
        "messages.2.content",
    ),
    (turn({"type": "foo"}), "messages.0.content.0.type"),
    ({"mcp_servers": [{"name": "m"}]}, "mcp_servers"),
    ({"stop": ["a"]}, "stop"),
    ({"n": 2}, "n"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"logprobs": True}, "logprobs"),
]


@pytest.mark.parametrize(("change", "param"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_wrong_is_named(change: dict[str, Any], param: str) -> None:
    known = snapshot(route(max_model_len=4096, chat=CALLER))
    with pytest.raises(InvalidRequest) as refusal:
        resolve(validate(MessagesRequest, {**ASKED, **change}), known)
    assert refusal.value.param == param
    assert re.search(rf"'{re.escape(param)}'", refusal.value.message)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            turn({"type": "document", "source": {"type": "content", "content": [PICTURE]}}),
            "a document is read as text: send its pictures as blocks of the type 'image', beside it",
        ),
        ({"system": [PICTURE]}, "the system prompt consists of text"),
    ],
)
def test_a_picture_in_the_wrong_place_is_told_where_it_belongs(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        validate(MessagesRequest, {**ASKED, **change})


@pytest.mark.parametrize(
    ("given", "read"), [("image/jpg", "image/jpeg"), ("IMAGE/PNG", "image/png"), ("Image/JPG", "image/jpeg")]
)
def test_a_media_type_may_be_written_as_in_a_url(given: str, read: str) -> None:
    request = validate(MessagesRequest, {**ASKED, **turn({**PICTURE, "source": {**SOURCE, "media_type": given}})})
    (block,) = request.request.messages[0].content
    assert isinstance(block, ImageBlock)
    assert isinstance(block.source, Base64Source)
    assert block.source.media_type == read


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ["a"] * 1_000_000},
        turn(*["a"] * 1_000_000),
        turn({"type": "tool_result", "tool_use_id": "t1", "content": ["a"] * 1_000_000}),
        {"system": ["a"] * 1_000_000},
        {"tools": ["a"] * 1_000_000},
    ],
    ids=["messages", "blocks", "results", "system", "tools"],
)
def test_of_a_million_items_that_are_no_objects_one_is_looked_at(change: dict[str, Any]) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidRequest):
        validate(MessagesRequest, {**ASKED, **change})
    assert time.thread_time() - began < 0.02


@pytest.mark.parametrize("name", ["functions.get_weather:0", "a b", "é", "x" * 200])
def test_a_call_comes_back_under_any_name_that_a_model_wrote(name: str) -> None:
    turns = [*SAID, {"role": "assistant", "content": [{**CALL, "name": name}]}, {"role": "user", "content": [RESULT]}]
    assert validate(MessagesRequest, {**ASKED, "messages": turns}).request.messages[1].content


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "user", "content": [{"type": "text", "text": str(number)} for number in range(300)]}],
        [{"role": "user", "content": str(number)} for number in range(300)],
    ],
)
def test_a_turn_may_have_more_parts_than_a_message_of_chat(turns: list[Any]) -> None:
    known = snapshot(route(max_model_len=4096, chat=CALLER))
    resolved = resolve(validate(MessagesRequest, {**ASKED, "messages": turns}), known)
    (message,) = json.loads(resolved.preparation)["chat"]["messages"]
    assert message["content"].split("\n") == [str(number) for number in range(300)]


def test_a_clients_own_words_keep_their_names_in_errors() -> None:
    why = "expected one that begins with '#'; found 'user', beside 'response_format' and the name 'stop_it'"
    error = InvalidRequest(f"Invalid value for 'stop': {why}.", param="stop")
    with pytest.raises(InvalidRequest) as refusal, NAMES.used():
        raise error
    assert refusal.value.param == "stop_sequences"
    assert refusal.value.message == (
        "Invalid value for 'stop_sequences': expected one that begins with '#'; found 'user', beside "
        "'output_config.format' and the name 'stop_it'."
    )
