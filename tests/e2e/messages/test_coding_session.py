"""A session as a coding agent has it: 120 tools, many turns, pictures, and all that such a client sends beside them."""

import base64
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic

from testkit.processes.conch_up import ROOT, ConchUp

EXAMPLE = ROOT / "examples" / "tiny-vlm"
CONTEXT = 16_384
POSITIONS = 64
"""Of a picture."""
TOOLS = 120
ROUNDS = 10
"""Of a call and its result; two turns each, beside what the user says."""
BETAS = ["interleaved-thinking-2025-05-14", "context-management-2025-06-27", "what-comes-2031-01-01"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anthropic]:
    """Return the SDK for a model that sees and whose context holds the session: tiny-vlm, stretched."""
    home = tmp_path_factory.mktemp("session")
    folder = home / "tiny-vlm"
    shutil.copytree(EXAMPLE, folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = CONTEXT
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": CONTEXT}))
    (home / "model.yaml").write_text(
        EXAMPLE.with_suffix(".yaml").read_text().replace("path: tiny-vlm", f"path: {folder}")
    )
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


def turns(*, pictures: bool = True) -> list[dict[str, Any]]:
    """Return the whole session, with or without what tools have shown; it may be cut behind any turn of the user."""
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
        results: list[dict[str, Any]] = [
            _result(call["id"], number + at, pictures=pictures) for at, call in enumerate(calls)
        ]
        more = [{"type": "text", "text": "Go on."}] if number % 4 == 3 else []
        found.append({"role": "user", "content": [*results, *more]})
        if number == ROUNDS // 2:
            found.append({"role": "user", "content": "And one more thing."})
    return found


def _result(call: Any, form: int, *, pictures: bool) -> dict[str, Any]:
    """Return a result in one of the forms that clients give it."""
    texts = [{"type": "text", "text": "print(1)"}, {"type": "text", "text": "print(2)"}]
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "notes"}}
    data = base64.b64encode((EXAMPLE / "pictures" / "red_7.png").read_bytes()).decode()
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    contents: list[Any] = ["print(1)", texts, [], [document], "No such file.", [*texts, *([shown] if pictures else [])]]
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
        "model": "tiny-vlm",
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
    blind = client.messages.count_tokens(**asked(turns(pictures=False))).input_tokens
    assert counts[-1] >= blind + 2 * POSITIONS
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
