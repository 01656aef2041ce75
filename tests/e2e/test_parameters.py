"""Every parameter of sampling, prompts and answers, through the whole of Conch; every answer follows its schema."""

import json
from typing import Any

import pytest

from testkit.http.json_post import Answered, post, read_raw
from testkit.http.openai_schemas import check, frames
from testkit.models.golden import Golden

HELLO = [{"role": "user", "content": "Hello!"}]
EOS = (2041, 2039)


def chat(base_url: str, **fields: Any) -> Answered:
    return post(f"{base_url}/chat/completions", {"model": "tiny-chat", "messages": HELLO, "temperature": 0, **fields})


def complete(base_url: str, **fields: Any) -> Answered:
    return post(f"{base_url}/completions", {"model": "tiny-chat", "prompt": "Once upon", "temperature": 0, **fields})


def chosen(answer: Answered, index: int = 0) -> Any:
    """Return a choice of an answer that follows its schema."""
    assert answer.status == 200, answer.body
    kind = answer.body["object"]
    check("CreateChatCompletionResponse" if kind == "chat.completion" else "CreateCompletionResponse", answer.body)
    return answer.body["choices"][index]


def text(answer: Answered, index: int = 0) -> str:
    choice = chosen(answer, index)
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


def streamed(base_url: str, **fields: Any) -> list[Any]:
    """Return the frames of a streamed chat, each checked."""
    body = {"model": "tiny-chat", "messages": HELLO, "temperature": 0, "stream": True, **fields}
    seen = list(frames(read_raw(f"{base_url}/chat/completions", body)))
    for frame in seen:
        check("CreateChatCompletionStreamResponse", frame)
    return seen


def ids(base_url: str, words: str) -> list[int]:
    found: list[int] = post(f"{base_url}/tokenize", {"prompt": words}).body["tokens"]
    return found


def test_of_many_choices_the_likeliest_come_back_in_order(base_url: str) -> None:
    asked = {"temperature": 1.2, "max_tokens": 8, "ignore_eos": True, "logprobs": 0, "seed": 5}
    answer = complete(base_url, n=2, best_of=6, **asked)
    everything = complete(base_url, n=6, **asked)
    means = sorted((_mean(choice) for choice in everything.body["choices"]), reverse=True)
    assert [_mean(chosen(answer, index)) for index in range(2)] == pytest.approx(means[:2], abs=1e-3)
    assert answer.body["usage"]["completion_tokens"] == everything.body["usage"]["completion_tokens"]
    assert len(chat(base_url, best_of=3, temperature=1).body["choices"]) == 1


def _mean(choice: Any) -> float:
    values = choice["logprobs"]["token_logprobs"]
    return float(sum(values) / len(values))


def test_only_allowed_ids_appear_and_bad_ones_do_not(base_url: str) -> None:
    plain = chosen(chat(base_url, return_token_ids=True))
    first = plain["token_ids"][0]
    others = chosen(chat(base_url, return_token_ids=True, bad_words_token_ids=[first]))["token_ids"]
    assert first not in others
    allowed = [first, *EOS]
    assert set(chosen(chat(base_url, return_token_ids=True, allowed_token_ids=allowed, max_tokens=5))["token_ids"]) <= {
        *allowed
    }


def test_bad_words_given_as_text_do_not_appear(base_url: str) -> None:
    plain = text(chat(base_url))
    words = plain.split()
    others = text(chat(base_url, bad_words=words[1:]))
    assert others != plain
    assert not any(word in others for word in words[1:])


def test_the_stop_string_is_shown_where_it_is_asked_for(base_url: str) -> None:
    plain = text(chat(base_url))
    word = plain.split()[2]
    head = plain.partition(word)[0]
    assert text(chat(base_url, stop=word)) == head
    assert text(chat(base_url, stop=word, include_stop_str_in_output=True)) == head + word
    frames_ = streamed(base_url, stop=word, include_stop_str_in_output=True)
    assert "".join(frame["choices"][0]["delta"].get("content", "") for frame in frames_) == head + word


@pytest.mark.parametrize("pattern", ["", " "])
def test_the_white_space_of_json_is_what_was_asked_for(base_url: str, pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}}, "required": ["a", "b"]}
    closed = {**schema, "additionalProperties": False}
    found = text(chat(base_url, guided_json=closed, guided_whitespace_pattern=pattern, max_tokens=40))
    assert found.replace(" ", "") == '{"a":1,"b":2}'
    assert (found.count('": '), found.count(", ")) == (2 * len(pattern), len(pattern))


def test_an_echo_with_log_probabilities_streams_as_it_comes_whole(base_url: str) -> None:
    asked = {"echo": True, "logprobs": 1, "max_tokens": 4, "ignore_eos": True}
    whole = complete(base_url, **asked).body["choices"][0]
    assert whole["text"].startswith("Once upon")
    body = {"model": "tiny-chat", "prompt": "Once upon", "temperature": 0, "stream": True, **asked}
    choices = [frame["choices"][0] for frame in frames(read_raw(f"{base_url}/completions", body))]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    for name in ("tokens", "token_logprobs", "text_offset"):
        parts = [part for choice in choices if choice["logprobs"] for part in choice["logprobs"][name]]
        assert parts == whole["logprobs"][name]


@pytest.mark.parametrize("count", [0, 3])
def test_the_prompts_log_probabilities_are_shown(base_url: str, count: int) -> None:
    prompts = ["Once upon", "The capital"]
    answer = complete(base_url, prompt=prompts, prompt_logprobs=count, max_tokens=2)
    for index, words in enumerate(prompts):
        found, expected = chosen(answer, index)["prompt_logprobs"], ids(base_url, words)
        assert found[0] is None
        assert len(found) == len(post(f"{base_url}/tokenize", {"prompt": words}).body["tokens"])
        assert all(
            str(id_) in position for id_, position in zip(expected[1:], found[-len(expected) + 1 :], strict=True)
        )
    assert len(chat(base_url, prompt_logprobs=count).body["prompt_logprobs"]) > 1


def test_log_probabilities_can_be_scaled_and_named_by_id(base_url: str) -> None:
    asked = {"logprobs": True, "top_logprobs": 2, "max_tokens": 1, "temperature": 0.5, "seed": 1}
    raw = chosen(chat(base_url, **asked))["logprobs"]["content"][0]
    scaled = chosen(chat(base_url, temp_scaled_logprobs=True, **asked))["logprobs"]["content"][0]
    gap, wider = (token["top_logprobs"][0]["logprob"] - token["top_logprobs"][1]["logprob"] for token in (raw, scaled))
    assert wider == pytest.approx(gap / 0.5, abs=0.02)
    named = chosen(chat(base_url, return_tokens_as_token_ids=True, **asked))["logprobs"]["content"][0]
    assert named["token"].startswith("token_id:")
    assert named["bytes"] == raw["bytes"]


def test_a_nucleus_of_one_token_is_certain(base_url: str) -> None:
    asked = {"logprobs": True, "max_tokens": 3, "temperature": 0.1, "top_p": 0.01, "seed": 1}
    content = chosen(chat(base_url, top_p_normalized_logprobs=True, **asked))["logprobs"]["content"]
    assert [token["logprob"] for token in content] == pytest.approx([0.0] * 3, abs=1e-6)


def test_ids_are_shown_beside_the_text_and_streamed_ones_are_the_same(base_url: str, golden: Golden) -> None:
    item = golden.chats()[0]
    whole = chosen(chat(base_url, messages=item.messages, return_token_ids=True))
    assert whole["message"]["prompt_token_ids"] == item.prompt_ids
    assert whole["message"]["completion_token_ids"] == item.output_ids
    assert whole["message"]["content"] == item.text
    parts = [f["choices"][0]["delta"] for f in streamed(base_url, messages=item.messages, return_token_ids=True)]
    assert parts[0]["prompt_token_ids"] == item.prompt_ids
    assert [id_ for part in parts for id_ in part.get("completion_token_ids") or ()] == item.output_ids


def test_a_prompt_can_be_given_as_ids_under_three_names(base_url: str, golden: Golden) -> None:
    item = golden.chats()[0]
    answers = [
        chat(base_url, messages=item.prompt_ids),
        chat(base_url, messages=None, prompt_token_ids=item.prompt_ids),
        chat(base_url, messages=[], prompt_token_ids=item.prompt_ids, disable_chat_template=True),
        complete(base_url, prompt=item.prompt_ids, max_tokens=100),
    ]
    assert [text(answer) for answer in answers] == [item.text] * 4


def test_a_chat_can_go_without_its_template(base_url: str) -> None:
    words = "Once upon"
    raw = chat(base_url, messages=[{"role": "user", "content": words}], disable_chat_template=True, max_tokens=8)
    assert text(raw) == text(complete(base_url, prompt=words, add_special_tokens=False, max_tokens=8))


def test_a_chat_can_echo_the_message_that_it_continues(base_url: str) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "Well"}]
    open_end = {"messages": messages, "add_generation_prompt": False, "continue_final_message": True}
    plain = text(chat(base_url, **open_end))
    assert text(chat(base_url, echo=True, **open_end)) == "Well" + plain
    parts = [frame["choices"][0]["delta"].get("content", "") for frame in streamed(base_url, echo=True, **open_end)]
    assert "".join(parts) == "Well" + plain


def test_a_prompt_is_cut_to_what_the_context_holds(base_url: str) -> None:
    long = "word " * 3000
    assert complete(base_url, prompt=long).status == 400
    usage = complete(base_url, prompt=long, truncate_prompt_tokens=-1, max_tokens=24, ignore_eos=True).body["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (1000, 1024)
    assert complete(base_url, prompt=long, truncate_prompt_tokens=7).body["usage"]["prompt_tokens"] == 7


def test_a_prompt_is_cut_at_the_end_that_is_asked_for(base_url: str) -> None:
    ids = list(range(100, 120))
    for side, kept in ({}, ids[-5:]), ({"truncation_side": "left"}, ids[-5:]), ({"truncation_side": "right"}, ids[:5]):
        cut = {"truncate_prompt_tokens": 5, "return_token_ids": True, **side}
        assert chosen(complete(base_url, prompt=ids, **cut))["prompt_token_ids"] == kept
        assert chat(base_url, messages=ids, **cut).body["prompt_token_ids"] == kept


def test_frames_hold_as_few_tokens_as_asked_for_and_tell_the_usage_so_far(base_url: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    seen = streamed(base_url, max_streaming_response_tokens=1, return_token_ids=True, stream_options=options)
    assert all(len(choice.get("token_ids", ())) <= 1 for frame in seen for choice in frame["choices"])
    counts = [frame["usage"]["completion_tokens"] for frame in seen]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == counts[-2] == sum(len(c.get("token_ids", ())) for f in seen for c in f["choices"])


def test_a_stream_that_wants_no_usage_has_none_in_any_frame(base_url: str) -> None:
    options = {"include_usage": False, "continuous_usage_stats": True}
    assert not any(frame.get("usage") for frame in streamed(base_url, max_tokens=4, stream_options=options))


def test_what_a_client_sends_along_comes_back(base_url: str) -> None:
    answer = chat(base_url, metadata={"job": "7"}, service_tier="auto", request_id="job-7", user="someone")
    assert (answer.body["metadata"], answer.body["service_tier"]) == ({"job": "7"}, "default")
    assert (answer.body["id"], answer.headers["x-request-id"]) == ("chatcmpl-job-7", "job-7")
    assert chosen(answer)["finish_reason"] == "stop"


def test_the_fingerprint_is_the_same_in_bodies_and_frames(base_url: str) -> None:
    fingerprint = chat(base_url).body["system_fingerprint"]
    assert fingerprint.startswith("fp_")
    assert {frame["system_fingerprint"] for frame in streamed(base_url)} == {fingerprint}
    assert complete(base_url).body["system_fingerprint"] == fingerprint


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": -5},
        {"cache_salt": "mine"},
        {"store": True, "prediction": {"type": "content", "content": "x"}, "safety_identifier": "a"},
        {"spaces_between_special_tokens": False, "skip_special_tokens": False},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"length_penalty": 1.0, "use_beam_search": False, "logits_processors": []},
    ],
)
def test_what_changes_nothing_here_is_accepted(base_url: str, fields: dict[str, Any]) -> None:
    assert text(chat(base_url, **fields)).startswith(text(chat(base_url)))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"use_beam_search": True}, "use_beam_search"),
        ({"vllm_xargs": {"a": 1}}, "vllm_xargs"),
        ({"kv_transfer_params": {"a": 1}}, "kv_transfer_params"),
        ({"logits_processors": ["os.system"]}, "logits_processors"),
        ({"prompt_embeds": "x"}, "prompt_embeds"),
        ({"lora_adapter": "x"}, "lora_adapter"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"mm_processor_kwargs": {"num_crops": 4}}, "mm_processor_kwargs"),
        ({"documents": [{"title": "t", "text": "x"}]}, "documents"),
    ],
)
def test_what_this_model_cannot_do_is_refused_by_name(base_url: str, fields: dict[str, Any], param: str) -> None:
    answer = chat(base_url, **fields)
    assert (answer.status, answer.body["error"]["param"]) == (400, param)
    assert answer.body["error"]["code"] == "unsupported_parameter"
    check("ErrorResponse", answer.body)


def test_a_suffix_needs_a_model_that_fills_in(base_url: str) -> None:
    answer = complete(base_url, suffix="the end")
    assert (answer.status, answer.body["error"]["param"]) == (400, "suffix")
    assert "fill-in" in json.dumps(answer.body)
