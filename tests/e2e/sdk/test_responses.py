"""The official SDK against a running Conch: the Responses API, and what it keeps."""

import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from testkit.http.openai_schemas import check, check_event
from testkit.models.golden import Golden, Item, load_golden
from testkit.processes.conch_up import wait_until

CHATS = [item.name for item in load_golden().chats()]
EVENTS: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
HELLO = "Hello!"
GREETING = "Hello! How can I help you today?"


def as_input(item: Item) -> list[dict[str, object]]:
    """Return a conversation with its parts in the names of this API."""
    text = json.dumps(item.messages)
    items: list[dict[str, object]] = json.loads(text.replace('"type": "text"', '"type": "input_text"'))
    return items


def valid(response: Response) -> Response:
    """Return the response after checking it against the published schema and the SDK's own type."""
    body = response.model_dump(mode="json", exclude_unset=True, by_alias=True)
    check("Response", body)
    Response.model_validate(body)
    return response


@pytest.mark.parametrize("name", CHATS)
def test_greedy_text_equals_the_reference(client: OpenAI, golden: Golden, name: str) -> None:
    item = golden.named(name)
    response = valid(client.responses.create(model="tiny-chat", input=as_input(item), temperature=0))
    assert response.output_text == item.text
    assert response.status == ("completed" if item.finish_reason == "stop" else "incomplete")
    assert response.usage is not None
    assert response.usage.input_tokens == len(item.prompt_ids)
    assert response.usage.output_tokens == len(item.output_ids)


@pytest.mark.parametrize("name", CHATS)
def test_the_events_of_a_stream_follow_the_schema_and_end_with_the_whole(
    client: OpenAI, golden: Golden, name: str
) -> None:
    item = golden.named(name)
    events = list(client.responses.create(model="tiny-chat", input=as_input(item), temperature=0, stream=True))
    for number, event in enumerate(events):
        body = event.model_dump(mode="json", exclude_unset=True, by_alias=True)
        check_event(body)
        EVENTS.validate_python(body)
        assert event.sequence_number == number
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:-1] == ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == item.text
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert valid(last.response).output_text == item.text


def test_the_stream_helper_accumulates_the_same_text(client: OpenAI) -> None:
    with client.responses.stream(model="tiny-chat", input=HELLO, temperature=0) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots[-1] == final.output_text == GREETING


def test_an_answer_that_a_limit_cut_is_incomplete(client: OpenAI) -> None:
    response = valid(client.responses.create(model="tiny-chat", input=HELLO, temperature=0, max_output_tokens=3))
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output[0].status == "incomplete"
    events = list(
        client.responses.create(model="tiny-chat", input=HELLO, temperature=0, max_output_tokens=3, stream=True)
    )
    assert events[-1].type == "response.incomplete"


def test_what_was_asked_comes_back_with_the_answer(client: OpenAI) -> None:
    asked = {
        "instructions": "Be brief.",
        "metadata": {"team": "a"},
        "user": "u",
        "top_p": 0.5,
        "max_output_tokens": 30,
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "text": {"format": {"type": "text"}, "verbosity": "low"},
    }
    response = valid(client.responses.create(model="tiny-chat", input=HELLO, **asked))
    echoed = response.model_dump(mode="json", exclude_unset=True)
    assert {name: echoed[name] for name in asked} == asked
    assert response.temperature == 1.0


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_come_with_the_text(client: OpenAI, golden: Golden, stream: bool) -> None:
    item = golden.named("greet")
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 3, "temperature": 0}
    if stream:
        events = list(client.responses.create(model="tiny-chat", input=as_input(item), stream=True, **asked))
        for event in events:
            check_event(event.model_dump(mode="json", exclude_unset=True, by_alias=True))
        response = events[-1].response
    else:
        response = client.responses.create(model="tiny-chat", input=as_input(item), **asked)
    entries = valid(response).output[0].content[0].logprobs
    assert "".join(entry.token for entry in entries[:-1]) == item.text
    assert len(entries) == len(item.output_ids)
    assert entries[0].logprob == pytest.approx(item.logprobs[0], abs=golden.tolerance_logprob)
    assert all(len(entry.top_logprobs) == 3 for entry in entries)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_kept_found_and_deleted(client: OpenAI, stream: bool) -> None:
    made = client.responses.create(model="tiny-chat", input=HELLO, temperature=0, stream=stream)
    response = list(made)[-1].response if stream else made
    assert response.model_dump()["store"] is True
    assert valid(client.responses.retrieve(response.id)).model_dump() == response.model_dump()
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(response.id)


def test_a_response_that_shall_not_be_kept_is_not(client: OpenAI) -> None:
    response = valid(client.responses.create(model="tiny-chat", input=HELLO, store=False))
    assert response.model_dump()["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_a_conversation_goes_on_from_its_last_answer(client: OpenAI, golden: Golden) -> None:
    item = golden.named("multi-turn")
    assert item.messages is not None
    first, _, second = [message["content"] for message in item.messages if message["role"] != "system"]
    one = client.responses.create(model="tiny-chat", input=first, temperature=0)
    two = client.responses.create(model="tiny-chat", input=second, temperature=0, previous_response_id=one.id)
    whole = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": one.output_text},
        {"role": "user", "content": second},
    ]
    assert two.output_text == client.responses.create(model="tiny-chat", input=whole, temperature=0).output_text
    assert two.previous_response_id == one.id
    assert two.usage is not None
    assert one.usage is not None
    assert two.usage.input_tokens > one.usage.input_tokens
    items = client.responses.input_items.list(two.id, order="asc").data
    assert [entry.content[0].text for entry in items] == [first, one.output_text, second]


def test_what_the_model_was_given_is_listed_page_by_page(client: OpenAI) -> None:
    turns = [{"role": "user" if number % 2 == 0 else "assistant", "content": str(number)} for number in range(5)]
    response = client.responses.create(model="tiny-chat", input=turns, max_output_tokens=1)
    listed = [entry.content[0].text for entry in client.responses.input_items.list(response.id, limit=2)]
    assert listed == ["4", "3", "2", "1", "0"]
    page = client.responses.input_items.list(response.id, limit=2, order="asc")
    assert page.has_more
    for entry in page.data:
        body = entry.model_dump(mode="json", exclude_unset=True)
        check("InputMessage" if body["role"] == "user" else "OutputMessage", body)


def test_instructions_do_not_reach_the_next_turn(client: OpenAI) -> None:
    one = client.responses.create(model="tiny-chat", input=HELLO, instructions="Talk like a pirate.", temperature=0)
    two = client.responses.create(model="tiny-chat", input=HELLO, previous_response_id=one.id)
    assert two.instructions is None
    assert len(client.responses.input_items.list(two.id).data) == 3


def test_an_answer_in_the_background_is_the_one_that_would_have_come(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny-chat", "input": HELLO, "temperature": 0, "max_output_tokens": 20}
    waited = client.responses.create(**asked)
    response = valid(client.responses.create(**asked, background=True))
    assert (response.status, response.background, response.output) == ("queued", True, [])
    wait_until(lambda: client.responses.retrieve(response.id).status == "completed", "the answer", 60, 0.05)
    done = client.responses.retrieve(response.id)
    assert done.output_text == waited.output_text
    valid(done)
    assert client.responses.create(model="tiny-chat", input=HELLO, previous_response_id=done.id).status == "completed"


def test_an_answer_in_the_background_is_cancelled(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny-chat", "input": HELLO, "extra_body": {"ignore_eos": True}}
    response = client.responses.create(**asked, background=True)
    cancelled = valid(client.responses.cancel(response.id))
    assert cancelled.status in ("cancelled", "completed", "incomplete")
    assert client.responses.retrieve(response.id).status == cancelled.status


def test_only_answers_in_the_background_can_be_cancelled(client: OpenAI) -> None:
    response = client.responses.create(model="tiny-chat", input=HELLO, max_output_tokens=1)
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_" + "0" * 32)


@pytest.mark.parametrize(
    ("asked", "param", "code"),
    [
        ({"previous_response_id": "resp_" + "0" * 32}, "previous_response_id", "previous_response_not_found"),
        ({"background": True, "store": False}, "background", "invalid_value"),
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ({"truncation": "auto"}, "truncation", "unsupported_parameter"),
        ({"temperature": 9}, "temperature", "invalid_value"),
        ({"input": "word " * 3000}, "input", "context_length_exceeded"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0.type", "unsupported_parameter"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", "unsupported_parameter"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_names_the_parameter(
    client: OpenAI, asked: dict[str, object], param: str, code: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": "tiny-chat", "input": HELLO, "stream": stream, **asked})
    assert (refused.value.param, refused.value.code) == (param, code)
    check("ErrorResponse", refused.value.response.json())


async def test_the_asynchronous_client_streams(base_url: str) -> None:
    async with AsyncOpenAI(base_url=base_url, api_key="x") as client:
        stream = await client.responses.create(model="tiny-chat", input=HELLO, temperature=0, stream=True)
        deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == GREETING
