"""Items as they are kept, and as the messages that a model gets."""

from itertools import count

import pytest
from pydantic import TypeAdapter

from conch_contracts.openai.responses.items import InputItem, StoredItem
from conch_gateway.responses.conversation import kept, messages

ITEMS: TypeAdapter[list[InputItem]] = TypeAdapter(list[InputItem])
STORED: TypeAdapter[list[StoredItem]] = TypeAdapter(list[StoredItem])
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}


def items(*given):
    numbers = count(1)
    return kept(ITEMS.validate_python(list(given)), lambda: str(next(numbers)))


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (
            {"role": "user", "content": "a"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}], "id": "msg_1"},
        ),
        (
            {"role": "assistant", "content": [{"type": "input_text", "text": "a"}], "id": "x"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}],
                "id": "x",
            },
        ),
        (CALL, {**CALL, "id": "fc_1"}),
        (
            {"type": "function_call_output", "call_id": "c1", "output": "7"},
            {"type": "function_call_output", "call_id": "c1", "output": "7", "id": "fco_1"},
        ),
        (THOUGHT, {**THOUGHT, "id": "rs_1"}),
    ],
)
def test_an_item_is_kept_with_an_id_and_a_status(given, stored):
    assert items(given) == [{**stored, "status": "completed"}]
    STORED.validate_python(items(given))
    assert ITEMS.validate_python(items(given))  # what was kept can be sent again


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"role": "user", "content": "a"}], [{"role": "user", "content": "a"}]),
        ([{"role": "user", "content": []}], [{"role": "user", "content": ""}]),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}],
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        ),
        (
            [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
            [{"role": "assistant", "content": "no"}],
        ),
        ([THOUGHT, CALL], [{"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [CALLED]}]),
        (
            [{"role": "assistant", "content": "a"}, CALL, {**CALL, "call_id": "c2"}],
            [{"role": "assistant", "content": "a", "tool_calls": [CALLED, {**CALLED, "id": "c2"}]}],
        ),
        (
            [THOUGHT, {"role": "assistant", "content": "a"}],
            [{"role": "assistant", "content": "a", "reasoning_content": "hm"}],
        ),
        (
            [{"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "7"}]}],
            [{"role": "tool", "tool_call_id": "c1", "content": "7"}],
        ),
    ],
)
def test_items_become_the_messages_of_chat(given, expected):
    assert messages(None, items(*given)) == expected


def test_instructions_come_first_as_the_system():
    assert messages("Be brief.", items({"role": "user", "content": "a"}))[0] == {
        "role": "system",
        "content": "Be brief.",
    }


def test_a_text_is_a_message_of_the_user():
    assert kept("a", lambda: "1")[0]["content"] == [{"type": "input_text", "text": "a"}]
