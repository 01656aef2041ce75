"""The exact bytes of streamed answers."""

import json
from typing import Any

import pytest

from conch_contracts.messages.generation import Api, Usage
from conch_kit.errors import ServiceError
from conch_kit.http.worker_answers import usage_comment
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.frames.stream_endings import DONE
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.parsing.answer_events import CallEnd, Reasoning
from testkit.builders.generate_requests import generate_request
from testkit.models.vocabularies import byte_level

VOCABULARY = byte_level()
CHUNKED = (Api.CHAT, Api.COMPLETION)
USAGE = Usage(prompt_tokens=3, completion_tokens=2)
CHAT = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny","choices":'
TEXT = b'data: {"id":"chatcmpl-1","object":"text_completion","created":7,"model":"tiny","choices":'


def payloads(raw: bytes) -> list[Any]:
    return [json.loads(frame.removeprefix(b"data: ")) for frame in raw.split(b"\n\n") if frame]


def test_a_chat_choice_is_a_role_frame_text_frames_and_a_finish() -> None:
    frames = frames_for(generate_request(), VOCABULARY)
    assert frames.opening(0) == CHAT + (
        b'[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
    )
    assert frames.update(0, ChoiceUpdate('a"\n')) == CHAT + (
        b'[{"index":0,"delta":{"content":"a\\"\\n"},"logprobs":null,"finish_reason":null}]}\n\n'
    )
    assert frames.update(0, ChoiceUpdate("", (), ChoiceFinish("stop", "END"))) == CHAT + (
        b'[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":"END"}]}\n\n'
    )


def test_a_completion_has_no_role_and_finishes_with_its_last_text() -> None:
    frames = frames_for(generate_request(api=Api.COMPLETION), VOCABULARY)
    assert frames.opening(0) == b""
    assert frames.update(0, ChoiceUpdate("hi")) == TEXT + (
        b'[{"index":0,"text":"hi","logprobs":null,"finish_reason":null}]}\n\n'
    )
    assert frames.update(0, ChoiceUpdate("!", (), ChoiceFinish("length"))) == TEXT + (
        b'[{"index":0,"text":"!","logprobs":null,"finish_reason":"length","stop_reason":null}]}\n\n'
    )


@pytest.mark.parametrize("api", list(Api))
def test_a_step_with_nothing_to_show_makes_no_frame(api: Api) -> None:
    assert frames_for(generate_request(api=api), VOCABULARY).update(0, ChoiceUpdate("")) == b""


@pytest.mark.parametrize("api", CHUNKED)
@pytest.mark.parametrize("logprobs", [False, True])
def test_usage_is_null_until_its_own_frame_and_absent_when_not_asked_for(api: Api, logprobs: bool) -> None:
    update = ChoiceUpdate("a", [TokenEntry(0, 0x61, -0.5, (), ())] if logprobs else (), ChoiceFinish("stop"))
    asked = frames_for(generate_request(api=api, include_usage=True, logprobs=logprobs), VOCABULARY)
    made = payloads(asked.opening(0) + asked.update(0, update))
    assert made
    assert all(payload["usage"] is None for payload in made)
    usage = payloads(asked.ending(USAGE).removesuffix(DONE))[0]
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    silent = frames_for(generate_request(api=api, logprobs=logprobs), VOCABULARY)
    assert all("usage" not in payload for payload in payloads(silent.opening(0) + silent.update(0, update)))
    assert silent.ending(USAGE) == DONE


def test_text_comes_behind_the_events_of_its_step() -> None:
    frames = frames_for(generate_request(), VOCABULARY)
    update = ChoiceUpdate(" then", (), ChoiceFinish("stop"), events=(Reasoning("Hm"), CallEnd(0)))
    choices = [payload["choices"][0] for payload in payloads(frames.update(0, update))]
    assert [choice["delta"].get("content", "") for choice in choices] == ["", " then", ""]
    assert [choice["finish_reason"] for choice in choices] == [None, None, "stop"]


def test_every_choice_has_its_index() -> None:
    frames = frames_for(generate_request(n=3), VOCABULARY)
    made = payloads(frames.opening(2) + frames.update(2, ChoiceUpdate("x", (), ChoiceFinish("stop"))))
    assert made[0]["choices"][0]["index"] == 2


def test_exactly_one_frame_of_a_choice_has_a_finish_reason() -> None:
    for api in CHUNKED:
        frames = frames_for(generate_request(api=api), VOCABULARY)
        first, last = ChoiceUpdate("a"), ChoiceUpdate("b", (), ChoiceFinish("stop"))
        made = payloads(frames.opening(0) + frames.update(0, first) + frames.update(0, last))
        assert [payload["choices"][0]["finish_reason"] for payload in made].count("stop") == 1


@pytest.mark.parametrize(("api", "column"), [(Api.CHAT, "content"), (Api.COMPLETION, "tokens")])
def test_log_probabilities_ride_on_the_text_frame(api: Api, column: str) -> None:
    frames = frames_for(generate_request(api=api, logprobs=True), VOCABULARY)
    update = ChoiceUpdate("ab", [TokenEntry(0, 0x61, -0.5, (), ()), TokenEntry(1, 0x62, -0.5, (), ())])
    assert len(payloads(frames.update(0, update))[0]["choices"][0]["logprobs"][column]) == 2


def test_the_end_of_a_stream_and_of_a_broken_one() -> None:
    assert DONE == b"data: [DONE]\n\n"
    assert usage_comment(USAGE) == b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
    error = ServiceError("no")
    broken = frames_for(generate_request(include_usage=True), VOCABULARY).failure(error, USAGE)
    assert broken == b"data: " + error.body() + b"\n\n"
