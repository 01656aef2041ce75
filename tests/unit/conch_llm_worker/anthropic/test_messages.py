"""The events of a streamed message, and the same message in one piece."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import Anthropic
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from conch_contracts.anthropic.answer import AnswerMessage
from conch_contracts.anthropic.events import MessageStreamEvent
from conch_contracts.messages.answer_parsing import Parsing, Thinking
from conch_contracts.messages.generation import Api, GenerateRequest, Usage
from conch_contracts.thinking_marks import ReasoningParser
from conch_gateway.answers.protocols import MESSAGES
from conch_kit.errors import RateLimited, ServiceError, Unavailable, UpstreamError
from conch_llm_worker.anthropic.complete_message import CompleteMessage
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.parsing.answer_events import CallArguments, CallBegin, CallBroken, CallEnd, Content, Reasoning
from testkit.builders.generate_requests import generate_request
from testkit.engines.engine_messages import tokens_response
from testkit.engines.scripted_worker import Worker, ask
from testkit.models.vocabularies import BYTE_EOS, byte_level

EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
OUR_EVENTS: TypeAdapter[Any] = TypeAdapter(MessageStreamEvent)
USAGE = Usage(prompt_tokens=3, completion_tokens=2, reasoning_tokens=1)
STOP = ChoiceFinish("stop")
BORDER = b"\n\n"
BROKEN = Unavailable("The engine was lost.")
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "msg_ab"}

TEXT = [ChoiceUpdate('a"\n'), ChoiceUpdate(""), ChoiceUpdate("é", (), STOP)]
THINKS = [
    ChoiceUpdate("", events=[Reasoning("h")]),
    ChoiceUpdate("", events=[Reasoning("m"), Content("a")]),
    ChoiceUpdate("b", (), STOP),
]
CALLS = [
    ChoiceUpdate("", events=[Reasoning("hm"), Content("so"), CallBegin(0, "call_1", "f"), CallArguments(0, '{"a"')]),
    ChoiceUpdate("", events=[CallArguments(0, ":1}"), CallEnd(0), CallBegin(1, "call_2", "g")]),
    ChoiceUpdate("", (), ChoiceFinish("tool_calls"), [CallArguments(1, "{}"), CallEnd(1)]),
]
BREAKS = [
    ChoiceUpdate("", events=[Content("so "), CallBegin(0, "call_1", "f"), CallArguments(0, '{"a"')]),
    ChoiceUpdate("", (), STOP, [CallBroken(0, '<call>{"a"')]),
]
CUT = [
    ChoiceUpdate("", events=[CallBegin(0, "call_1", "f"), CallArguments(0, '{"a"')]),
    ChoiceUpdate("", (), ChoiceFinish("length")),
]

CASES = {
    "text": (TEXT, [{"type": "text", "text": 'a"\né'}], "end_turn"),
    "thinking": (THINKS, [SIGNED, {"type": "text", "text": "ab"}], "end_turn"),
    "calls": (
        CALLS,
        [
            SIGNED,
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "call_2", "name": "g", "input": {}},
        ],
        "tool_use",
    ),
    "what only looked like a call": (BREAKS, [{"type": "text", "text": 'so <call>{"a"'}], "end_turn"),
    "a call that was cut": (CUT, [{"type": "text", "text": ""}], "max_tokens"),
    "nothing": ([ChoiceUpdate("", (), STOP)], [{"type": "text", "text": ""}], "end_turn"),
}


def asked(**changes: Any) -> GenerateRequest:
    return generate_request(**{"api": Api.MESSAGES, "response_id": "msg_ab", "request_id": "r1"} | changes)


def streamed(request: GenerateRequest, updates: list[ChoiceUpdate]) -> list[dict[str, Any]]:
    return events(streamed_bytes(request, updates))


def streamed_bytes(request: GenerateRequest, updates: list[ChoiceUpdate]) -> bytes:
    frames = frames_for(request, byte_level())
    return b"".join([frames.opening(0), *(frames.update(0, update) for update in updates), frames.ending(USAGE)])


def events(raw: bytes) -> list[dict[str, Any]]:
    """Return the events, each of which must have the name that its data has."""
    found = []
    for frame in raw.removesuffix(b"\n\n").split(b"\n\n"):
        name, data = frame.split(b"\n")
        found.append(json.loads(data.removeprefix(b"data: ")))
        assert name == b"event: " + found[-1]["type"].encode()
    return found


def complete(request: GenerateRequest, updates: list[ChoiceUpdate]) -> dict[str, Any]:
    message = CompleteMessage(request)
    for update in updates:
        message.add(update)
    found: dict[str, Any] = json.loads(message.body(USAGE))
    return found


def collected(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks as a client collects them; one is open at a time, and their numbers have no gaps."""
    blocks: list[dict[str, Any]] = []
    is_open = False
    arguments = ""
    for event in told[1:-2]:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert (is_open, index) == (False, len(blocks))
                blocks.append(dict(block))
                is_open, arguments = True, ""
            case {"type": "content_block_delta", "index": index, "delta": {"type": kind, **piece}}:
                assert is_open
                assert index == len(blocks) - 1
                if kind == "input_json_delta":
                    arguments += piece["partial_json"]
                else:
                    ((name, text),) = piece.items()
                    assert kind == f"{name}_delta"
                    blocks[-1][name] += text
            case {"type": "content_block_stop", "index": index}:
                assert (is_open, index) == (True, len(blocks) - 1)
                is_open = False
                if blocks[-1]["type"] == "tool_use":
                    blocks[-1]["input"] = json.loads(arguments)
            case _:
                raise AssertionError(event)
    assert not is_open
    return blocks


@pytest.mark.parametrize("case", CASES)
def test_a_stream_and_a_whole_answer_say_the_same(case: str) -> None:
    updates, blocks, reason = CASES[case]
    whole, told = complete(asked(), updates), streamed(asked(stream=True), updates)
    assert [whole["content"], collected(told)] == [blocks, blocks]
    begun, delta, last = told[0]["message"], told[-2], told[-1]
    assert (delta["type"], last) == ("message_delta", {"type": "message_stop"})
    assert whole["stop_reason"] == delta["delta"]["stop_reason"] == reason
    assert whole["usage"] == delta["usage"] | {}
    assert begun | {"content": [], "usage": None} == whole | {
        "content": [],
        "usage": None,
        "stop_reason": None,
        "stop_sequence": None,
    }
    assert begun["usage"]["output_tokens"] == 0


@pytest.mark.parametrize("case", ["thinking", "calls"])
def test_thinking_that_is_not_shown_is_a_block_without_its_text(case: str) -> None:
    updates, blocks, _ = CASES[case]
    hidden = Parsing(thinking=Thinking(parser=ReasoningParser.THINK, show=False))
    told = streamed(asked(stream=True, parsing=hidden), updates)
    assert complete(asked(parsing=hidden), updates)["content"] == collected(told)
    assert collected(told) == [{**SIGNED, "thinking": ""}, *blocks[1:]]
    assert [event["delta"] for event in told if event.get("index") == 0 and "delta" in event] == [
        {"type": "thinking_delta", "thinking": ""},
        {"type": "signature_delta", "signature": "msg_ab"},
    ]


@pytest.mark.parametrize("show", [True, False])
async def test_thinking_is_told_whether_it_is_shown_or_not(show: bool) -> None:
    thought = [tokens_response(b"<think>hm</think>"), tokens_response(b"hi"), tokens_response([BYTE_EOS], "stop")]
    parsing = Parsing(thinking=Thinking(parser=ReasoningParser.THINK, show=show))
    caller = await Worker(thought).call(ask(api=Api.MESSAGES, parsing=parsing, stream=False, response_id="msg_ab"))
    message = json.loads(caller.body)
    assert message["content"] == [{**SIGNED, "thinking": "hm" if show else ""}, {"type": "text", "text": "hi"}]
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] > 0


@pytest.mark.parametrize("case", CASES)
def test_the_sdk_reads_every_answer(case: str) -> None:
    updates = CASES[case][0]
    whole = complete(asked(), updates)
    assert Message.model_validate(whole).id == "msg_ab"
    assert AnswerMessage.model_validate(whole).model_dump(exclude_none=False) == whole | {
        "usage": {"output_tokens_details": None} | whole["usage"]
    }
    for event in streamed(asked(stream=True), updates):
        assert EVENTS.validate_python(event).type == event["type"]
        assert OUR_EVENTS.validate_python(event).model_dump(exclude_unset=True) == event


def test_a_call_is_shown_when_it_is_complete_and_not_before() -> None:
    frames = frames_for(asked(stream=True), byte_level())
    frames.opening(0)
    assert b"tool_use" not in frames.update(0, CALLS[0])
    assert frames.update(0, CALLS[1]).count(b"tool_use") == 1


@pytest.mark.parametrize(
    ("finish", "cut", "expected"),
    [
        (ChoiceFinish("stop", "END"), False, ("stop_sequence", "END")),
        (ChoiceFinish("stop", 7), False, ("end_turn", None)),
        (ChoiceFinish("length"), False, ("max_tokens", None)),
        (ChoiceFinish("length"), True, ("model_context_window_exceeded", None)),
        (ChoiceFinish("stop"), True, ("end_turn", None)),
    ],
)
def test_why_an_answer_ended(finish: ChoiceFinish, cut: bool, expected: tuple[str, str | None]) -> None:
    whole = complete(asked(cut_to_context=cut), [ChoiceUpdate("a", (), finish)])
    assert (whole["stop_reason"], whole["stop_sequence"]) == expected


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UpstreamError("It broke."), "api_error"),
        (RateLimited("Too many."), "rate_limit_error"),
        (Unavailable("Away."), "overloaded_error"),
    ],
)
def test_a_stream_that_breaks_ends_with_an_error(error: ServiceError, kind: str) -> None:
    frames = frames_for(asked(stream=True), byte_level())
    frames.opening(0)
    frames.update(0, TEXT[0])
    (told,) = events(frames.failure(error, USAGE))
    assert told == {"type": "error", "error": {"type": kind, "message": error.message}, "request_id": "r1"}


def test_without_thinking_the_usage_tells_none() -> None:
    message = CompleteMessage(asked())
    message.add(ChoiceUpdate("a", (), STOP))
    usage = json.loads(message.body(Usage(prompt_tokens=3, completion_tokens=2)))["usage"]
    assert usage == {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 2,
    }


@pytest.mark.parametrize(
    "written",
    ['{"n":1e999}', '{"n":-1E+400}', '{"n":12345678901234567890123}', '{"t":"\\ud800"}', '{"\\udc00x":[1]}', "{}"],
)
def test_a_call_is_shown_as_the_model_wrote_it(written: str) -> None:
    updates = [
        ChoiceUpdate("", events=[CallBegin(0, "call_1", "f"), CallArguments(0, written), CallEnd(0)]),
        ChoiceUpdate("", (), ChoiceFinish("tool_calls")),
    ]
    message = CompleteMessage(asked())
    for update in updates:
        message.add(update)
    assert b'"input":' + written.encode() in message.body(USAGE)
    (delta,) = [event["delta"] for event in streamed(asked(stream=True), updates) if event["type"].endswith("k_delta")]
    assert delta["partial_json"] == written


def test_a_complete_stream_ends_as_the_gateway_has_it() -> None:
    frames = frames_for(asked(stream=True), byte_level())
    frames.opening(0)
    assert frames.ending(USAGE).endswith(MESSAGES.last_frame)


class Pieces(httpx2.SyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def raw_events(case: str) -> list[bytes]:
    """Return the events of a streamed answer."""
    return [event + BORDER for event in streamed_bytes(asked(stream=True), CASES[case][0]).split(BORDER)[:-1]]


def told_by_sdk(pieces: Iterable[bytes], seen: list[Any] | None = None) -> dict[str, Any]:
    """Return the message that the SDK reads from a body in these pieces; what it tells on the way goes into `seen`."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(pieces))

    http = anthropic.DefaultHttpxClient(transport=httpx2.MockTransport(answer))
    with (
        Anthropic(base_url="http://x", api_key="x", max_retries=0, http_client=http) as client,
        client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream,
    ):
        for event in stream:
            if seen is not None:
                seen.append(event)
        return stream.get_final_message().to_dict()


@pytest.mark.parametrize("case", CASES)
def test_an_answer_is_the_same_wherever_its_bytes_are_cut(case: str) -> None:
    found = raw_events(case)
    raw = b"".join(found)
    whole = told_by_sdk([raw])
    assert whole["content"] == CASES[case][1]
    for border in range(1, len(found)):
        assert told_by_sdk([b"".join(found[:border]), b"".join(found[border:])]) == whole
    assert told_by_sdk(raw[at : at + 1] for at in range(len(raw))) == whole


@pytest.mark.parametrize("case", CASES)
def test_a_fault_at_any_border_is_an_error_behind_what_was_told(case: str) -> None:
    found = raw_events(case)
    complete: list[Any] = []
    told_by_sdk(found, complete)
    for border in range(1, len(found)):
        seen: list[Any] = []
        with pytest.raises(anthropic.APIStatusError, match=r"The engine was lost\.") as failed:
            told_by_sdk([*found[:border], MESSAGES.error_frame(BROKEN, "r1")], seen)
        assert failed.value.body == {
            "type": "error",
            "error": {"type": "overloaded_error", "message": BROKEN.message},
            "request_id": "r1",
        }
        assert seen == complete[: len(seen)]
        assert len(seen) >= border
