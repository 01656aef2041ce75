"""Every form of thinking and tool calls, from the client to a real Triton and back.

The engine says what the user's message says, so each transcript is what the model writes. There is one deployment for
each pair of forms; all of them use the one engine.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from testkit.models.transcripts import TEMPLATE, TOOLS, TRANSCRIPTS, Transcript
from testkit.processes.conch_up import EXAMPLE, ROOT, ConchUp
from testkit.servers.triton import triton_server

ECHO = ROOT / "tests" / "support" / "triton_models" / "echo"


def forms(parsing: Parsing) -> tuple[ToolCallParser, ReasoningParser]:
    """Return the forms that a deployment must have to read a transcript."""
    return (
        ToolCallParser.NONE if parsing.calls is None else parsing.calls.parser,
        ReasoningParser.NONE if parsing.thinking is None else parsing.thinking.parser,
    )


def name_of(parsing: Parsing) -> str:
    return "-".join(forms(parsing))


def deployment(parsing: Parsing, grpc: str) -> dict[str, Any]:
    tool_calls, reasoning = forms(parsing)
    return {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name_of(parsing)},
        "spec": {
            "kind": "LLM",
            "source": {"path": str(EXAMPLE.parent / "tiny-chat")},
            "engine": {"external": {"grpc": grpc, "modelName": "echo", "dialect": "tokens"}},
            "tokenizer": {"chatTemplate": {"inline": TEMPLATE}},
            "generation": {"toolCallParser": tool_calls, "reasoningParser": reasoning},
        },
    }


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    folder = tmp_path_factory.mktemp("families")
    shutil.copytree(ECHO, folder / "repository" / "echo")
    with triton_server(folder / "repository", "echo", folder=folder) as triton:
        files = [written(folder, deployment(one.parsing, triton.grpc)) for one in TRANSCRIPTS]
        with (
            ConchUp(folder / "state", *dict.fromkeys(files)) as conch,
            OpenAI(base_url=conch.base_url, api_key="x", max_retries=0) as sdk,
        ):
            yield sdk


def written(folder: Path, spec: dict[str, Any]) -> Path:
    path = folder / f"{spec['metadata']['name']}.yaml"
    path.write_text(json.dumps(spec))
    return path


def ask(transcript: Transcript) -> dict[str, Any]:
    thinking, calls = transcript.parsing.thinking, transcript.parsing.calls
    body: dict[str, Any] = {
        "model": name_of(transcript.parsing),
        "messages": [{"role": "user", "content": transcript.text}],
    }
    if calls is not None:
        body["tools"] = TOOLS
    if thinking is not None and thinking.opened:
        body["reasoning_effort"] = "high"
    if thinking is not None and not thinking.show:
        body["extra_body"] = {"include_reasoning": False}
    return body


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_an_answer_has_the_parts_of_the_transcript(client: OpenAI, transcript: Transcript) -> None:
    (choice,) = client.chat.completions.create(**ask(transcript)).choices
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    found = (message.content or "", message.reasoning_content or "", tuple(calls))
    assert found == (transcript.content, transcript.reasoning, transcript.calls)
    assert choice.finish_reason == ("tool_calls" if calls else "stop")


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_so_has_a_stream(client: OpenAI, transcript: Transcript) -> None:
    content, reasoning, calls, reasons = "", "", list[list[str]](), []
    for chunk in client.chat.completions.create(stream=True, **ask(transcript)):
        (choice,) = chunk.choices
        content += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        reasons += [choice.finish_reason] if choice.finish_reason else []
        for piece in choice.delta.tool_calls or ():
            assert piece.function is not None
            if piece.index == len(calls):
                assert (piece.type, piece.function.arguments) == ("function", "")
                calls.append([piece.function.name or "", ""])
            calls[piece.index][1] += piece.function.arguments or ""
    assert reasons == ["tool_calls" if transcript.calls else "stop"]
    assert reasoning == transcript.reasoning
    complete = [call for call in map(tuple, calls) if call in transcript.calls]
    assert complete == list(transcript.calls)
    if len(calls) == len(complete):
        assert content == transcript.content
