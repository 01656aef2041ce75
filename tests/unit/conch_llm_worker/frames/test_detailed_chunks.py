"""What streams show beside their text when a request asks for it, and that whole answers show the same."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from conch_contracts.messages.generation import Api, Details, GenerateRequest, Usage
from conch_contracts.messages.message import changed
from conch_contracts.openai.chat import ChatCompletion, ChatCompletionChunk
from conch_contracts.openai.completions import Completion
from conch_contracts.records import Profile
from conch_llm_worker.bodies.complete_body import ChoiceBody, complete_body
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.frames.detailed_chunks import DetailedFrames
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.parsing.answer_events import Content, Reasoning
from testkit.builders.generate_requests import generate_request, sampling
from testkit.models.transcripts import thoughts
from testkit.models.vocabularies import BYTE_EOS, byte_level

VOCABULARY = byte_level()
CHUNKED = (Api.CHAT, Api.COMPLETION)
USAGE = Usage(prompt_tokens=3, completion_tokens=3)
UPDATES = [
    ChoiceUpdate("he", ids=[0x68, 0x65], tokens=2),
    ChoiceUpdate("", ids=[0x21], tokens=1),
    ChoiceUpdate("llo", (), ChoiceFinish("stop"), ids=[0x6C, 0x02], tokens=2),
]


def detailed(api: Api = Api.CHAT, **fields: Any) -> GenerateRequest:
    return generate_request(api=api, details=Details(**fields))


def body(request: GenerateRequest, *updates: ChoiceUpdate) -> Any:
    choice = ChoiceBody()
    for update in updates:
        choice.add(update)
    return json.loads(complete_body(request, [choice], USAGE, VOCABULARY))


def stream(request: GenerateRequest, *updates: ChoiceUpdate) -> list[Any]:
    seconds = iter(range(100))
    assert request.details is not None
    frames = DetailedFrames(request, request.details, VOCABULARY, lambda: float(next(seconds)))
    raw = frames.opening(0) + b"".join(frames.update(0, update) for update in updates)
    return [json.loads(frame.removeprefix(b"data: ")) for frame in raw.split(b"\n\n") if frame]


@pytest.mark.parametrize("api", CHUNKED)
def test_frames_without_any_detail_are_those_of_a_plain_answer(api: Api) -> None:
    request = generate_request(api=api)
    plain = frames_for(request, VOCABULARY)
    raw = plain.opening(0) + b"".join(plain.update(0, update) for update in UPDATES)
    fast = [json.loads(frame.removeprefix(b"data: ")) for frame in raw.split(b"\n\n") if frame]
    assert stream(detailed(api), *UPDATES) == fast


@pytest.mark.parametrize("api", CHUNKED)
def test_the_ids_of_the_frames_joined_are_all_that_the_engine_made(api: Api) -> None:
    choices = [frame["choices"][0] for frame in stream(detailed(api, token_ids=True), *UPDATES)]
    parts = [choice.get("delta", choice) for choice in choices]
    assert parts[0]["prompt_token_ids"] == [1, 2, 3]
    assert [id_ for part in parts for id_ in part.get("completion_token_ids") or ()] == [0x68, 0x65, 0x21, 0x6C, 0x02]
    assert [id_ for choice in choices for id_ in choice.get("token_ids", ())] == [0x68, 0x65, 0x21, 0x6C, 0x02]


def test_every_frame_of_a_text_has_lists_that_clients_can_add_up() -> None:
    request = generate_request(api=Api.COMPLETION, logprobs=True, details=Details(token_ids=True))
    update = ChoiceUpdate("a", [TokenEntry(0, 0x61, -0.5, (), ())], ChoiceFinish("stop"), ids=[0x61])
    choices = [frame["choices"][0] for frame in stream(request, update)]
    assert [choice["token_ids"] for choice in choices] == [[], [0x61]]
    assert [choice["logprobs"]["tokens"] for choice in choices] == [[], ["a"]]
    assert choices[0]["prompt_token_ids"] == [1, 2, 3]


def test_ids_stand_where_clients_of_both_servers_look_for_them() -> None:
    chat, text = (body(detailed(api, token_ids=True), *UPDATES) for api in CHUNKED)
    made = [0x68, 0x65, 0x21, 0x6C, 0x02]
    assert chat["prompt_token_ids"] == chat["choices"][0]["message"]["prompt_token_ids"] == [1, 2, 3]
    assert chat["choices"][0]["message"]["completion_token_ids"] == chat["choices"][0]["token_ids"] == made
    assert text["choices"][0]["prompt_token_ids"] == [1, 2, 3]
    assert text["choices"][0]["completion_token_ids"] == text["choices"][0]["token_ids"] == made


@pytest.mark.parametrize("api", CHUNKED)
def test_fastdeploy_tells_the_texts_of_ids_with_special_tokens_and_without_the_end(api: Api) -> None:
    request = detailed(api, token_ids=True, profile=Profile.FASTDEPLOY)
    request = changed(request, sampling=sampling(eos_token_ids=(BYTE_EOS,)))
    updates = (
        ChoiceUpdate("a", ids=[0x61, BYTE_EOS]),
        ChoiceUpdate("", ids=[0xC3]),
        ChoiceUpdate("äb", ids=[0xA4, 0x62, BYTE_EOS]),
        ChoiceUpdate("", (), ChoiceFinish("stop")),
    )
    whole = body(request, *updates)["choices"][0]
    shown = whole.get("message", whole)
    parts = [frame["choices"][0].get("delta", frame["choices"][0]) for frame in stream(request, *updates)]
    assert shown["prompt_tokens"] == parts[0]["prompt_tokens"] == "\x01\x02\x03"
    assert shown["completion_tokens"] == "a<|end|>äb"
    assert "".join(part.get("completion_tokens", "") for part in parts) == "a<|end|>äb"


def test_other_profiles_tell_no_texts_of_ids() -> None:
    choice = body(detailed(Api.COMPLETION, token_ids=True), *UPDATES)["choices"][0]
    assert (choice["prompt_tokens"], choice["completion_tokens"], choice["reasoning_content"]) == (None, None, None)
    deltas = [frame["choices"][0]["delta"] for frame in stream(detailed(token_ids=True), *UPDATES)]
    assert all(delta.keys().isdisjoint({"prompt_tokens", "completion_tokens"}) for delta in deltas)


def test_usage_grows_from_frame_to_frame_when_asked_for() -> None:
    seen = [frame["usage"] for frame in stream(detailed(continuous_usage=True), *UPDATES)]
    assert [usage["completion_tokens"] for usage in seen] == [0, 2, 5, 5]
    assert {usage["prompt_tokens"] for usage in seen} == {3}


def test_the_thinking_so_far_is_told_where_thinking_is_looked_for() -> None:
    request = changed(detailed(continuous_usage=True), parsing=thoughts())
    updates = (
        ChoiceUpdate("", events=[Reasoning("hm")], tokens=3, reasoning_tokens=2),
        ChoiceUpdate("", (), ChoiceFinish("stop"), [Content("a")], tokens=2),
    )
    seen = [frame["usage"] for frame in stream(request, *updates)]
    assert [usage["completion_tokens_details"] for usage in seen] == [
        {"reasoning_tokens": told} for told in (0, 2, 2, 2)
    ]
    denglin = changed(request, details=Details(profile=Profile.DENGLIN))
    assert stream(denglin, *updates)[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


PROMPT = [TokenEntry(0, 0x61, None, (), ()), TokenEntry(1, 0x62, -2.0, (0x63, 0x62), (-0.5, -2.0))]


@pytest.mark.parametrize("api", CHUNKED)
def test_tokens_can_be_named_by_their_ids(api: Api) -> None:
    request = generate_request(api=api, logprobs=True, details=Details(tokens_as_ids=True))
    update = ChoiceUpdate("a", [TokenEntry(0, 0x61, -0.5, (0x62,), (-1.0,))], ChoiceFinish("stop"), ids=[0x61])
    assert '"token_id:97"' in json.dumps(body(request, update))
    assert '"token_id:98"' in json.dumps(stream(request, update))


def test_what_a_client_sent_along_comes_back() -> None:
    answer = body(detailed(service_tier="default", metadata={"a": "b", "min_tokens": 1}), *UPDATES)
    assert (answer["service_tier"], answer["metadata"]) == ("default", {"a": "b", "min_tokens": 1})
    assert stream(detailed(service_tier="default"), *UPDATES)[0]["service_tier"] == "default"


@pytest.mark.parametrize("details", [None, Details()])
def test_the_fingerprint_is_in_every_frame_and_body(details: Details | None) -> None:
    request = generate_request(fingerprint="fp_1", details=details)
    assert body(request, *UPDATES)["system_fingerprint"] == "fp_1"
    frame = frames_for(request, VOCABULARY).opening(0)
    assert json.loads(frame.removeprefix(b"data: "))["system_fingerprint"] == "fp_1"


@pytest.mark.parametrize("profile", [Profile.OPENAI, Profile.DENGLIN])
@pytest.mark.parametrize("api", CHUNKED)
@pytest.mark.parametrize("told", [False, True])
def test_the_finishing_frame_tells_the_usage_where_the_deployment_says_so(
    api: Api, profile: Profile, told: bool
) -> None:
    *others, last = stream(detailed(api, profile=profile, final_usage=told), *UPDATES)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last.get("usage") == (
        {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8, "prompt_tokens_details": {"cached_tokens": 0}}
        if told
        else None
    )
    assert not any("usage" in frame for frame in others)


class TestTheDenglinProfile:
    def test_usage_comes_with_the_end_of_a_chat_unasked(self) -> None:
        *others, last = stream(detailed(profile=Profile.DENGLIN), *UPDATES)
        assert last["usage"] == {
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "total_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        assert last["choices"][0]["finish_reason"] == "stop"
        assert not any("usage" in frame for frame in others)

    def test_a_completion_ends_twice(self) -> None:
        *_, text, last = stream(detailed(Api.COMPLETION, profile=Profile.DENGLIN), *UPDATES)
        assert (text["choices"][0]["text"], text["choices"][0]["finish_reason"]) == ("llo", "stop")
        assert (last["choices"][0]["text"], last["choices"][0]["finish_reason"]) == ("", "stop")
        assert last["usage"]["completion_tokens"] == 5


def test_the_fastdeploy_profile_tells_when_each_part_came() -> None:
    frames = stream(detailed(profile=Profile.FASTDEPLOY), *UPDATES)
    arrivals = [frame["choices"][0]["arrival_time"] for frame in frames]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] > 0


def test_each_delta_of_the_fastdeploy_profile_has_what_its_clients_read_unasked() -> None:
    request = generate_request(parsing=thoughts(), details=Details(profile=Profile.FASTDEPLOY))
    updates = [ChoiceUpdate("", events=[Reasoning("hm"), Content("well")]), *UPDATES]
    deltas = [frame["choices"][0]["delta"] for frame in stream(request, *updates)]
    empty = {"tool_calls": None, "prompt_token_ids": None, "completion_token_ids": None}
    assert deltas[0] == {"role": "assistant", "content": "", "reasoning_content": "", "reasoning": "", **empty}
    assert deltas[1] == {"content": "", "reasoning_content": "hm", "reasoning": "hm", **empty}
    assert deltas[2] == {"content": "well", "reasoning_content": "", "reasoning": "", **empty}
    assert all(empty.items() <= delta.items() for delta in deltas)
    with_ids = [
        frame["choices"][0]["delta"]
        for frame in stream(detailed(token_ids=True, profile=Profile.FASTDEPLOY), *UPDATES[:1])
    ]
    assert [delta["prompt_token_ids"] for delta in with_ids] == [[1, 2, 3], None]
    assert [delta["completion_token_ids"] for delta in with_ids] == [None, [0x68, 0x65]]


def test_each_text_of_the_fastdeploy_profile_has_them_too() -> None:
    choices = [frame["choices"][0] for frame in stream(detailed(Api.COMPLETION, profile=Profile.FASTDEPLOY), *UPDATES)]
    names = ("tool_calls", "prompt_token_ids", "completion_token_ids", "reasoning_content")
    assert [[choice[name] for name in names] for choice in choices] == [[None, None, None, ""]] * len(choices)


def test_the_thinking_of_a_text_stands_beside_it() -> None:
    request = generate_request(api=Api.COMPLETION, parsing=thoughts(), details=Details(profile=Profile.FASTDEPLOY))
    updates = [
        ChoiceUpdate("", events=[Reasoning("hm")], tokens=1),
        ChoiceUpdate("", events=[Reasoning("m"), Content("we")], tokens=2),
        ChoiceUpdate("", (), ChoiceFinish("stop"), events=[Content("ll")], tokens=1),
    ]
    choices = [frame["choices"][0] for frame in stream(request, *updates)]
    assert [(choice["text"], choice["reasoning_content"]) for choice in choices] == [
        ("", "hm"),
        ("we", "m"),
        ("ll", ""),
    ]
    whole = body(request, *updates)["choices"][0]
    assert (whole["text"], whole["reasoning_content"]) == ("well", "hmm")


EVERYTHING: dict[str, Any] = {
    "token_ids": True,
    "prompt_logprobs": 2,
    "service_tier": "default",
    "metadata": {"a": "b"},
    "kv_transfer": {"a": 1},
    "continuous_usage": True,
    "profile": Profile.FASTDEPLOY,
}


@pytest.mark.parametrize(
    ("api", "whole", "frame"),
    [(Api.CHAT, ChatCompletion, ChatCompletionChunk), (Api.COMPLETION, Completion, Completion)],
)
def test_nothing_is_shown_that_the_published_types_do_not_know(
    api: Api, whole: type[BaseModel], frame: type[BaseModel]
) -> None:
    request = generate_request(api=api, logprobs=True, fingerprint="fp_1", details=Details(**EVERYTHING))
    entries = [TokenEntry(0, 0x61, -0.5, (0x62,), (-1.0,))]
    update = ChoiceUpdate("a", entries, ChoiceFinish("stop"), ids=[0x61], prompt=PROMPT)
    _check(whole, body(request, update))
    for shown in stream(request, update):
        _check(frame, shown)


def _check(kind: type[BaseModel], shown: Any) -> None:
    """Fail for a field that gets lost when the type reads the object and writes it again."""
    kept = kind.model_validate(shown).model_dump(exclude_unset=True)
    assert kept == shown
