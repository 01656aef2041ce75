"""Turns of the Messages API as messages of chat."""

from typing import Any

import pytest

from conch_contracts.anthropic.request import CountTokensRequest
from conch_gateway.anthropic.conversation import messages

CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"é": [1]}}
CALLED = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": '{"é": [1]}'}}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


def answered(content: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": "toolu_1", "content": content}


def document(source: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


CASES = {
    "a text": ([("user", "hi")], [{"role": "user", "content": "hi"}]),
    "several texts": ([("user", [text("a"), text("b")])], [{"role": "user", "content": [text("a"), text("b")]}]),
    "neighbours": (
        [("user", "a"), ("user", [text("b")]), ("assistant", "c"), ("assistant", [text("d")])],
        [{"role": "user", "content": [text("a"), text("b")]}, {"role": "assistant", "content": [text("c"), text("d")]}],
    ),
    "thinking and a call": (
        [
            (
                "assistant",
                [
                    {"type": "thinking", "thinking": "hm", "signature": "any"},
                    {"type": "redacted_thinking", "data": "secret"},
                    text("so"),
                    CALL,
                ],
            )
        ],
        [{"role": "assistant", "content": "so", "reasoning_content": "hm", "tool_calls": [CALLED]}],
    ),
    "a call alone": ([("assistant", [CALL])], [{"role": "assistant", "content": "", "tool_calls": [CALLED]}]),
    "results come before what else the user says": (
        [("user", [text("now"), result("7"), result([text("a"), text("b")])])],
        [answered("7"), answered("a\nb"), {"role": "user", "content": "now"}],
    ),
    "a result alone": ([("user", [result(None)])], [answered("")]),
    "a call that failed": ([("user", [result("no such file", is_error=True)])], [answered("Error: no such file")]),
    "documents": (
        [
            (
                "user",
                [
                    document({"type": "text", "media_type": "text/plain", "data": "body"}, title="t", context="c"),
                    document({"type": "content", "content": [text("a"), text("b")]}),
                    document({"type": "content", "content": "whole"}),
                    {"type": "search_result", "source": "s", "title": "t", "content": [text("x"), text("y")]},
                ],
            )
        ],
        [{"role": "user", "content": [text("t\nc\nbody"), text("a\nb"), text("whole"), text("t\ns\nx\ny")]}],
    ),
    "a later system turn": (
        [("user", "a"), ("system", "be brief"), ("user", "b")],
        [
            {"role": "user", "content": "a"},
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "b"},
        ],
    ),
}


def conversation(turns: list[tuple[str, Any]], system: Any = None) -> list[dict[str, Any]]:
    sent = [{"role": role, "content": content} for role, content in turns]
    request = CountTokensRequest.model_validate({"model": "m", "messages": sent, "system": system})
    return messages(request.system, request.messages)


@pytest.mark.parametrize("case", CASES)
def test_turns_become_messages(case: str) -> None:
    turns, expected = CASES[case]
    assert conversation(turns) == expected


@pytest.mark.parametrize(
    ("system", "first", "expected"),
    [
        ("a", [], "a"),
        ([text("a")], [], "a"),
        ([text("a"), text("b")], [], [text("a"), text("b")]),
        ("a", [("system", "b"), ("system", [text("c")])], [text("a"), text("b"), text("c")]),
        (None, [("system", "b")], "b"),
        ([text("x-anthropic-billing-header: cc_version=2.1; cch=42"), text("b")], [], "b"),
    ],
)
def test_what_the_system_says_first_is_one_message(system: Any, first: list[tuple[str, Any]], expected: Any) -> None:
    found = conversation([*first, ("user", "hi")], system)
    assert found == [{"role": "system", "content": expected}, {"role": "user", "content": "hi"}]


def test_notes_for_its_maker_alone_are_no_system_prompt() -> None:
    assert conversation([("user", "hi")], "x-anthropic-billing-header: a") == [{"role": "user", "content": "hi"}]
