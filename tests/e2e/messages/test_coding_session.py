"""A session as a coding agent has it: 120 tools, many turns, and all that such a client sends beside them."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic

from testkit.processes.conch_up import EXAMPLE, ConchUp

CONTEXT = 16_384
TOOLS = 120
ROUNDS = 10
"""Of a call and its result; two turns each, beside what the user says."""
BETAS = ["interleaved-thinking-2025-05-14", "context-management-2025-06-27", "what-comes-2031-01-01"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anthropic]:
    """Return the SDK for a model whose context holds the session: tiny-chat, stretched."""
    home = tmp_path_factory.mktemp("session")
    folder = home / "tiny-chat"
    shutil.copytree(EXAMPLE.parent / "tiny-chat", folder)
    for file, field in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        fields = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**fields, field: CONTEXT}))
    (home / "model.yaml").write_text(EXAMPLE.read_text().replace("path: tiny-chat", f"path: {folder}"))
    with ConchUp(home / "state", home / "model.yaml") as conch:
        url = conch.base_url.removesuffix("/v1")
        headers = {"x-claude-code-session-id": "1", "anthropic-beta": ",".join(BETAS)}
        with Anthropic(base_url=url, api_key="x", max_retries=0, default_headers=headers) as sdk:
            yield sdk


def tools() -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    made: list[dict[str, Any]] = [
        {"name": f"mcp__files_of_server_{index // 10}__tool_{index}", "description": "d", "input_schema": schema}
        for index in range(TOOLS)
    ]
    made[-1]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    return made


def turns() -> list[dict[str, Any]]:
    """Return the whole session; it may be cut behind any turn of the user."""
    found: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>Today is Monday.</system-reminder>"},
                {"type": "text", "text": "Hello!", "cache_control": {"type": "ephemeral"}},
            ],
        }
    ]
    for number in range(ROUNDS):
        names = [f"mcp__files_of_server_0__tool_{call}" for call in range(1 + number % 3)]
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": {"path": f"é{number}.py"}}
            for at, name in enumerate(names)
        ]
        thought = {"type": "thinking", "thinking": "hm", "signature": "EqQBCgIYAhIkYTVj=="}
        said = {"type": "text", "text": "I look."}
        found.append({"role": "assistant", "content": [*([thought] if number % 2 else []), said, *calls]})
        results: list[dict[str, Any]] = [_result(call["id"], number + at) for at, call in enumerate(calls)]
        more = [{"type": "text", "text": "Go on."}] if number % 4 == 3 else []
        found.append({"role": "user", "content": [*results, *more]})
        if number == ROUNDS // 2:
            found.append({"role": "user", "content": "And one more thing."})
    return found


def _result(call: Any, form: int) -> dict[str, Any]:
    """Return a result in one of the forms that clients give it."""
    texts = [{"type": "text", "text": "print(1)"}, {"type": "text", "text": "print(2)"}]
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "notes"}}
    contents: list[Any] = ["print(1)", texts, [], [document], "No such file."]
    content = contents[form % len(contents)]
    return {
        "type": "tool_result",
        "tool_use_id": call,
        "content": content,
        "is_error": content == "No such file.",
        "cache_control": {"type": "ephemeral"},
    }


def asked(session: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "model": "tiny-chat",
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": session,
        "tools": tools(),
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }


def test_no_turn_of_a_session_is_refused(client: Anthropic) -> None:
    session = turns()
    assert len(session) >= 20
    counts = [
        client.messages.count_tokens(**asked(session[:end])).input_tokens
        for end in range(1, len(session) + 1)
        if session[end - 1]["role"] == "user"
    ]
    assert counts == sorted(counts)
    assert counts[0] > TOOLS * 10
    for end in (1, len(session)):
        with client.messages.stream(
            **asked(session[:end]),
            max_tokens=2000,
            stop_sequences=["."],
            extra_body={"context_management": {"edits": []}, "metadata": {"user_id": "user_1_session_2"}},
        ) as told:
            message = told.get_final_message()
        assert message.usage.input_tokens == (counts[0] if end == 1 else counts[-1])
        assert message.stop_reason in ("end_turn", "stop_sequence", "max_tokens", "tool_use")
