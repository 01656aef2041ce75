"""The events of a streamed response, and the same answer in one piece."""

import json
from typing import Any

import pytest

from conch_contracts.messages.generation import Api, GenerateRequest, Usage
from conch_kit.errors import RateLimited, ServiceError, UpstreamError
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.parsing.answer_events import CallArguments, CallBegin, CallBroken, CallEnd, Content, Reasoning
from conch_llm_worker.responses.complete_response import CompleteResponse
from testkit.builders.generate_requests import generate_request
from testkit.http.openai_schemas import check, check_event
from testkit.models.vocabularies import byte_level

VOCABULARY = byte_level()
USAGE = Usage(prompt_tokens=3, completion_tokens=2)
ECHOED = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}
THINKS = [
    ChoiceUpdate("", events=[Reasoning("h")]),
    ChoiceUpdate("", events=[Reasoning("m"), Content("a")]),
    ChoiceUpdate("b", (), ChoiceFinish("stop")),
]
CALLS = [
    ChoiceUpdate("", events=[Reasoning("hm"), CallBegin(0, "call_1", "f"), CallArguments(0, '{"a"')]),
    ChoiceUpdate("", events=[CallArguments(0, ":1}"), CallEnd(0), CallBegin(1, "call_2", "g")]),
    ChoiceUpdate("", (), ChoiceFinish("tool_calls"), [CallArguments(1, "{}"), CallEnd(1)]),
]
BREAKS = [
    ChoiceUpdate("", events=[Content("so "), CallBegin(0, "call_1", "f"), CallArguments(0, '{"a"')]),
    ChoiceUpdate("", (), ChoiceFinish("stop"), [CallBroken(0, '<call>{"a"')]),
]
CUT = [
    ChoiceUpdate("", events=[CallBegin(0, "call_1", "f"), CallArguments(0, '{"a"')]),
    ChoiceUpdate("", (), ChoiceFinish("length")),
]
UPDATES = [ChoiceUpdate('a"\n'), ChoiceUpdate(""), ChoiceUpdate("é", (), ChoiceFinish("stop"))]


def asked(**changes: Any) -> GenerateRequest:
    fields = {"api": Api.RESPONSES, "response_id": "resp_ab", "response_fields": json.dumps(ECHOED)}
    return generate_request(**fields | changes)


def streamed(request: GenerateRequest, updates: list[ChoiceUpdate]) -> bytes:
    frames = frames_for(request, VOCABULARY)
    return b"".join([frames.opening(0), *(frames.update(0, update) for update in updates), frames.ending(USAGE)])


def events(raw: bytes) -> list[dict[str, Any]]:
    found = []
    for frame in raw.split(b"\n\n"):
        if frame.startswith(b"event: "):
            name, data = frame.split(b"\n")
            found.append(json.loads(data.removeprefix(b"data: ")))
            assert name == b"event: " + found[-1]["type"].encode()
    return found


@pytest.mark.parametrize("store", [True, False])
def test_the_first_events_have_all_that_an_answer_has(store: bool) -> None:
    request = asked(response_fields=json.dumps(ECHOED | {"store": store}))
    told = events(streamed(request, UPDATES))
    created, in_progress, last = (event["response"] for event in told if "response" in event)
    prompt = sum(len(one.ids) for one in request.prompts)
    for begun in (created, in_progress):
        assert begun["store"] is store
        assert (begun["usage"]["input_tokens"], begun["usage"]["output_tokens"]) == (prompt, 0)
    assert set(last) == set(created) - {"store"}  # whether it was stored, the gateway knows


def collected(request: GenerateRequest, updates: list[ChoiceUpdate]) -> dict[str, Any]:
    whole = CompleteResponse(request, VOCABULARY)
    for update in updates:
        whole.add(update)
    body: dict[str, Any] = json.loads(whole.body(USAGE))
    return body


@pytest.mark.parametrize(
    "updates",
    [
        UPDATES,
        [ChoiceUpdate("", (), ChoiceFinish("stop"))],
        [ChoiceUpdate("a", (), ChoiceFinish("length"))],
        THINKS,
        CALLS,
        BREAKS,
        CUT,
    ],
)
def test_every_event_follows_the_schema_and_is_numbered(updates: list[ChoiceUpdate]) -> None:
    seen = events(streamed(asked(), updates))
    for number, event in enumerate(seen):
        check_event(event)
        assert event["sequence_number"] == number
    assert seen[-1]["response"]["output"] == collected(asked(), updates)["output"]


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [("stop", "completed", None), ("length", "incomplete", {"reason": "max_output_tokens"})],
)
def test_the_last_event_holds_what_the_answer_in_one_piece_is(
    reason: str, status: str, details: dict[str, str] | None
) -> None:
    updates = [ChoiceUpdate("ab"), ChoiceUpdate("c", (), ChoiceFinish(reason))]
    whole = collected(asked(), updates)
    last = events(streamed(asked(), updates))[-1]
    assert last["type"] == f"response.{status}"
    assert {**last["response"], "completed_at": 0} == {**whole, "completed_at": 0}
    check("Response", whole)
    assert (whole["status"], whole["incomplete_details"]) == (status, details)
    assert (whole["completed_at"] is None) == (status == "incomplete")
    assert whole["output"][0]["status"] == status
    assert whole["output"][0]["content"][0]["text"] == "abc"
    assert whole["usage"]["total_tokens"] == 5
    assert {name: whole[name] for name in ECHOED} == ECHOED


def test_the_answer_comes_before_the_last_event_in_a_comment_and_is_its_last_member() -> None:
    *_, comment, last, rest = streamed(asked(), UPDATES).split(b"\n\n")
    assert rest == b""
    answer = comment.removeprefix(b": response ")
    assert json.loads(answer)["status"] == "completed"
    assert last.endswith(b'"response":' + answer + b"}")


@pytest.mark.parametrize(("error", "code"), [(UpstreamError("no"), "server_error"), (RateLimited("no"), None)])
def test_an_answer_that_breaks_fails_with_what_there_is(error: ServiceError, code: str | None) -> None:
    frames = frames_for(asked(), VOCABULARY)
    raw = frames.opening(0) + frames.update(0, ChoiceUpdate("ab")) + frames.failure(error, USAGE)
    last = events(raw)[-1]
    check_event(last)
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": code or "rate_limit_exceeded", "message": "no"}
    (item,) = last["response"]["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "ab")


def test_log_probabilities_ride_on_the_deltas_and_stand_in_the_whole() -> None:
    entries = [TokenEntry(0, 0x61, -0.5, (0x62,), (-1.0,)), TokenEntry(1, 0x62, -0.25, (0x61,), (-2.0,))]
    updates = [ChoiceUpdate("a", entries[:1]), ChoiceUpdate("b", entries[1:], ChoiceFinish("stop"))]
    seen = events(streamed(asked(logprobs=True), updates))
    for event in seen:
        check_event(event)
    deltas = [event["logprobs"] for event in seen if event["type"] == "response.output_text.delta"]
    whole = seen[-1]["response"]["output"][0]["content"][0]["logprobs"]
    assert deltas == [whole[:1], whole[1:]]
    assert [entry["top_logprobs"][0]["token"] for entry in whole] == ["b", "a"]
    assert seen[-1]["response"]["output"] == collected(asked(logprobs=True), updates)["output"]


def kinds(updates: list[ChoiceUpdate]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events(streamed(asked(), updates))][2:-1]


def test_thinking_and_text_are_items_of_their_own() -> None:
    assert kinds(THINKS) == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]
    thought, message = collected(asked(), THINKS)["output"]
    assert (thought["content"][0]["text"], message["content"][0]["text"]) == ("hm", "ab")


def test_calls_are_items_whose_arguments_come_in_pieces() -> None:
    assert kinds(CALLS)[6:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    calls = collected(asked(), CALLS)["output"][1:]
    assert [(call["call_id"], call["name"], call["arguments"], call["status"]) for call in calls] == [
        ("call_1", "f", '{"a":1}', "completed"),
        ("call_2", "g", "{}", "completed"),
    ]


def test_a_call_that_turns_out_to_be_none_is_text_and_no_item() -> None:
    first, second = collected(asked(), BREAKS)["output"]
    assert [item["content"][0]["text"] for item in (first, second)] == ["so ", '<call>{"a"']
    done = [event["item"] for event in events(streamed(asked(), BREAKS)) if event["type"].endswith("output_item.done")]
    assert [item["status"] for item in done] == ["completed", "incomplete", "completed"]


def test_a_call_that_a_limit_cut_is_incomplete() -> None:
    whole = collected(asked(), CUT)
    assert (whole["status"], whole["output"][0]["status"]) == ("incomplete", "incomplete")


def test_the_tokens_of_the_thinking_are_told() -> None:
    frames = frames_for(asked(), VOCABULARY)
    usage = Usage(prompt_tokens=3, completion_tokens=9, reasoning_tokens=4)
    raw = frames.opening(0) + frames.update(0, THINKS[0]) + frames.ending(usage)
    told = events(raw)[-1]["response"]["usage"]
    assert (told["output_tokens"], told["output_tokens_details"]) == (9, {"reasoning_tokens": 4})


def test_what_is_repeated_of_the_request_has_numbers_of_any_size() -> None:
    schema = {"type": "object", "properties": {"a": {"maximum": 10**400}}}
    fields = ECHOED | {"text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}}
    frames = streamed(asked(response_fields=json.dumps(fields)), UPDATES)
    assert events(frames)[-1]["response"]["text"] == fields["text"]
