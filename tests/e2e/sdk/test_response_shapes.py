"""Responses of every shape, whole and streamed, against OpenAI's schema, the SDK's types and Open Responses."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from testkit.http.open_responses import check_open, check_open_event
from testkit.http.openai_schemas import check, check_event
from testkit.models.golden import Golden
from testkit.processes.conch_up import wait_until

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["a"],
    "additionalProperties": False,
}
NOTHING = {"type": "function", "name": "nothing", "parameters": None, "strict": None}
ASKED: dict[str, dict[str, Any]] = {
    "plain": {"input": "Hello!"},
    "cut": {"input": "Hello!", "max_output_tokens": 3, "store": False},
    "told": {
        "input": "Hello!",
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "user": "u",
        "top_p": 0.5,
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "text": {"verbosity": "low"},
        "extra_body": {"presence_penalty": 0.5, "frequency_penalty": 0.25},
    },
    "with log probabilities": {
        "input": "Hello!",
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    },
    "of a form": {"input": "Hello!", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
    "of JSON": {"input": "Hello!", "text": {"format": {"type": "json_object"}}, "max_output_tokens": 20},
    "with a tool that it need not call": {"input": "Hello!", "tools": [NOTHING]},
    "with no tool that it may call": {"input": "Hello!", "tools": [NOTHING], "tool_choice": "none"},
    "with tools that are allowed": {
        "input": "Hello!",
        "tools": [NOTHING],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "nothing"}]},
    },
    "with a tool that it must call": {
        "input": "Hello!",
        "tools": [{**NOTHING, "parameters": SCHEMA}],
        "tool_choice": {"type": "function", "name": "nothing"},
    },
    "thoughtful": {"input": "What is 5 + 6?", "reasoning": {"effort": "high"}},
}


OF_SCHEMAS = {"presence_penalty", "frequency_penalty", "store", "bytes", "name"}
"""What the SDK's types do not have: Open Responses requires it, and of the last OpenAI's own schema does."""


def unknown(value: object, place: str = "") -> Iterator[str]:
    """Return the fields that the SDK's types do not have."""
    if isinstance(value, BaseModel):
        extra = value.model_extra or {}
        yield from (f"{place}.{name}" for name in extra.keys() - OF_SCHEMAS)
        for name in value.model_fields_set - extra.keys():
            yield from unknown(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown(item, f"{place}.{index}")


def valid(response: Response) -> Response:
    """Return a response after checking it."""
    body = response.model_dump(mode="json", exclude_unset=True, by_alias=True)
    check("Response", body)
    check_open(body)
    assert list(unknown(response)) == []
    return response


@pytest.mark.parametrize("name", ASKED)
def test_a_response_has_all_that_is_required_and_nothing_unknown(client: OpenAI, name: str) -> None:
    response = valid(client.responses.create(model="tiny-chat", temperature=0, **ASKED[name]))
    assert response.output
    if response.model_dump()["store"]:
        assert valid(client.responses.retrieve(response.id)) == response


@pytest.mark.parametrize("name", ASKED)
def test_so_has_each_event_of_a_stream(client: OpenAI, name: str) -> None:
    events = list(client.responses.create(model="tiny-chat", temperature=0, stream=True, **ASKED[name]))
    for event in events:
        body = event.model_dump(mode="json", exclude_unset=True, by_alias=True)
        check_event(body)
        check_open_event(body)
        assert list(unknown(event)) == []
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type in ("response.completed", "response.incomplete")


def test_the_shapes_are_all_there(client: OpenAI, golden: Golden) -> None:
    """Else a model that thinks no more, or calls nothing, would leave the tests above without their objects."""
    ask = {name: client.responses.create(model="tiny-chat", temperature=0, **ASKED[name]) for name in ASKED}
    kinds = {item.type for response in ask.values() for item in response.output}
    assert kinds == {"message", "function_call", "reasoning"}
    assert {response.status for response in ask.values()} == {"completed", "incomplete"}


def test_responses_in_the_background_have_it_at_every_stage(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny-chat", "input": "Hello!", "background": True}
    done = valid(client.responses.create(**asked))
    wait_until(lambda: valid(client.responses.retrieve(done.id)).status == "completed", "the answer", 60, 0.01)
    endless = client.responses.create(**asked, extra_body={"ignore_eos": True})
    wait_until(lambda: valid(client.responses.retrieve(endless.id)).status != "queued", "its begin", 60, 0.01)
    valid(client.responses.cancel(endless.id))
    valid(client.responses.retrieve(endless.id))
