"""What a message or a tool says that no answer here would obey is refused by name."""

import re
from typing import Any

import pytest

from conch_contracts.openai.encoders.embeddings import EmbeddingRequest
from conch_contracts.openai.tokenizing import TokenizeRequest
from conch_gateway.requests import validation
from conch_gateway.requests.unsupported_members import OF_MESSAGES, OF_TOOLS, refuse
from conch_gateway.responses import validation as responses
from conch_kit.errors import InvalidRequest

HI = {"role": "user", "content": "hi"}
NOW = {"name": "now", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": NOW}


def _assert_refused(document: dict[str, Any], param: str, kind: Any = None) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(f"The parameter '{param}' is not supported: ")) as refused:
        validation.typed(kind, document) if kind else validation.chat(document)
    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize("name", sorted(OF_MESSAGES))
def test_a_message_that_asks_for_what_is_not_done_is_refused(name: str) -> None:
    said = {"messages": [HI, {**HI, name: ["something"]}]}
    _assert_refused(said, f"messages.1.{name}")
    _assert_refused(said, f"messages.1.{name}", EmbeddingRequest)
    _assert_refused(said, f"messages.1.{name}", TokenizeRequest)
    with pytest.raises(InvalidRequest) as refused:
        responses.validate({"input": [{**HI, name: ["something"]}]})
    assert (refused.value.param, refused.value.code) == (f"input.0.{name}", "unsupported_parameter")


@pytest.mark.parametrize("name", sorted(OF_TOOLS))
def test_a_tool_that_asks_for_what_is_not_done_is_refused(name: str) -> None:
    asked = {"messages": [HI]}
    _assert_refused({**asked, "tools": [TOOL, {**TOOL, name: ["something"]}]}, f"tools.1.{name}")
    _assert_refused({**asked, "tools": [{**TOOL, "function": {**NOW, name: 7}}]}, f"tools.0.function.{name}")
    with pytest.raises(InvalidRequest) as refused:
        responses.validate({"input": "hi", "tools": [{"type": "function", **NOW, name: 7}]})
    assert (refused.value.param, refused.value.code) == (f"tools.0.{name}", "unsupported_parameter")


def test_what_asks_for_nothing_passes() -> None:
    for name, refusal in OF_MESSAGES.items():
        for value in (None, *refusal.harmless):
            assert validation.chat({"messages": [{**HI, name: value}]}).unknown_fields == 0
    for name, refusal in OF_TOOLS.items():
        for value in (None, *refusal.harmless):
            assert validation.chat({"messages": [HI], "tools": [{**TOOL, name: value}]}).unknown_fields == 0


def test_what_a_message_says_in_another_field_too_passes() -> None:
    thought = {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}], "reasoning": "hm"}
    validation.chat({"messages": [HI, {"role": "assistant", "content": "a", **thought}]})


@pytest.mark.parametrize("entries", ["x", [], [1], [{}, 1], [{"function": 3}], {"images": [1]}])
def test_what_is_no_list_of_objects_is_left_to_the_schema(entries: object) -> None:
    refuse({"messages": entries, "tools": entries}, ("messages", "tools"))
