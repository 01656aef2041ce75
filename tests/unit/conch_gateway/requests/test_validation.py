"""Exact and strict: every wrong value is a 400 that names its parameter."""

import pytest

from conch_gateway.requests import parameters, validation
from conch_kit.errors import InvalidRequest

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = {"prompt": "hi"}

BAD_SAMPLING = [
    ({"n": "5"}, "n"),
    ({"n": True}, "n"),
    ({"n": 0}, "n"),
    ({"n": -1}, "n"),
    ({"n": 10**9}, "n"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"stream": "yes"}, "stream"),
    ({"stream": 1}, "stream"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": 2.0001}, "temperature"),
    ({"temperature": 1e308}, "temperature"),
    ({"temperature": float("inf")}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"top_p": -1}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"frequency_penalty": 2.1}, "frequency_penalty"),
    ({"presence_penalty": -2.1}, "presence_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"seed": 2**64}, "seed"),
    ({"seed": 1.0}, "seed"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop": "x" * 257}, "stop"),
    ({"stop": [None]}, "stop.0"),
    ({"stop_token_ids": [-1]}, "stop_token_ids.0"),
    ({"logit_bias": {"abc": 1}}, "logit_bias.abc"),
    ({"logit_bias": {"-1": 1}}, "logit_bias.-1"),
    ({"logit_bias": {"1": 101}}, "logit_bias.1"),
    ({"logit_bias": {str(n): 1 for n in range(2000)}}, "logit_bias"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream_options": {"include_usage": "yes"}, "stream": True}, "stream_options.include_usage"),
    ({"user": "x" * 10**6}, "user"),
    ({"metadata": {"a": {"b": 1}}}, "metadata.a"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {"min_tokens": True}}, "metadata.min_tokens"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    ({"metadata": {"a": "x" * 513}}, "metadata.a"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"bad_words": [""]}, "bad_words.0"),
    ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
    ({"best_of": 9}, "best_of"),
    ({"best_of": 2, "n": 3}, "best_of"),
    ({"best_of": 2, "stream": True}, "best_of"),
    ({"use_beam_search": True, "stream": True}, "use_beam_search"),
    ({"use_beam_search": True, "n": 9}, "n"),
    ({"use_beam_search": True, "top_p": 0.5}, "top_p"),
    ({"use_beam_search": True, "top_k": 4}, "top_k"),
    ({"use_beam_search": True, "min_p": 0.1}, "min_p"),
    ({"length_penalty": 2}, "length_penalty"),
    ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ({"prompt_logprobs": -1}, "prompt_logprobs"),
    ({"prompt_logprobs": 21}, "prompt_logprobs"),
    ({"allowed_token_ids": []}, "allowed_token_ids"),
    ({"allowed_token_ids": [-1]}, "allowed_token_ids.0"),
    ({"bad_words_token_ids": ["a"]}, "bad_words_token_ids.0"),
    ({"max_streaming_response_tokens": 0}, "max_streaming_response_tokens"),
    ({"priority": 1.5}, "priority"),
    ({"priority": 2**40}, "priority"),
    ({"request_id": "a b"}, "request_id"),
    ({"request_id": "x" * 129}, "request_id"),
    ({"cache_salt": ""}, "cache_salt"),
    ({"vllm_xargs": {"a": {}}}, "vllm_xargs.a"),
    ({"kv_transfer_params": 3}, "kv_transfer_params"),
    ({"return_token_ids": 1}, "return_token_ids"),
    ({"model": 5}, "model"),
]


@pytest.mark.parametrize(("fields", "param"), BAD_SAMPLING)
def test_a_wrong_sampling_value_is_refused_by_both_endpoints(fields, param):
    for validate, rest in ((validation.chat, CHAT), (validation.completion, TEXT)):
        with pytest.raises(InvalidRequest) as caught:
            validate({**rest, **fields})
        assert caught.value.param == param
        assert caught.value.code == "invalid_value"
        assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "hi"}, "messages", "invalid_value"),
        ({"messages": [True]}, "messages.0", "invalid_value"),
        ({"messages": [-1]}, "messages.0", "invalid_value"),
        ({"messages": [5, {"role": "user", "content": "x"}]}, "messages.1", "invalid_value"),
        ({"messages": [{"role": "root", "content": "x"}]}, "messages.0.role", "invalid_value"),
        ({"messages": [{"role": "user"}]}, "messages.0.content", "missing_required_parameter"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content", "invalid_value"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages.0.content", "invalid_value"),
        ({"messages": [{"role": "user", "content": []}]}, "messages.0.content", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]},
            "messages.0.content.1.image_url",
            "missing_required_parameter",
        ),
        ({"messages": [{"role": "user", "content": "x"}] * 5000}, "messages", "invalid_value"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id", "missing_required_parameter"),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"id": "1"}]}]},
            "messages.0.tool_calls.0.function",
            "missing_required_parameter",
        ),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"logprobs": 3}, "logprobs", "invalid_value"),
        ({"continue_final_message": True}, "continue_final_message", "invalid_value"),
        ({"disable_chat_template": True, "chat_template": "x"}, "disable_chat_template", "invalid_value"),
        ({"disable_chat_template": True, "messages": [1]}, "disable_chat_template", "invalid_value"),
        ({"documents": [{"text": 3}]}, "documents.0.text", "invalid_value"),
        ({"suffix": "x"}, "suffix", "unsupported_parameter"),
        ({"prompt": "x"}, "prompt", "unsupported_parameter"),
    ],
)
def test_a_wrong_chat_field_is_refused(fields, param, code):
    with pytest.raises(InvalidRequest) as caught:
        validation.chat({**CHAT, **fields})
    assert (caught.value.param, caught.value.code) == (param, code)


@pytest.mark.parametrize(("validate", "param"), [(validation.chat, "messages"), (validation.completion, "prompt")])
def test_a_request_without_a_prompt_is_refused(validate, param):
    with pytest.raises(InvalidRequest) as caught:
        validate({})
    assert (caught.value.param, caught.value.code) == (param, "missing_required_parameter")


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ("", "prompt"),
        ([], "prompt"),
        ([""], "prompt.0"),
        (["a", 1], "prompt.1"),
        ([1, "a"], "prompt.1"),
        ([[[1]]], "prompt.0.0"),
        ([-1], "prompt.0"),
        ([2**31], "prompt.0"),
        ([2**63], "prompt.0"),
        ([1.0], "prompt.0"),
        ([True], "prompt.0"),
        ([[]], "prompt.0"),
        (3, "prompt"),
        ({}, "prompt"),
    ],
)
def test_a_wrong_prompt_is_refused(prompt, param):
    with pytest.raises(InvalidRequest) as caught:
        validation.completion({"prompt": prompt})
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"prompt": ["a"] * 257}, "Invalid value for 'prompt': expected at most 256 items."),
        ({"prompt": [[1]] * 257}, "Invalid value for 'prompt': expected at most 256 items."),
        ({"stream_options": 3, "stream": True}, "Invalid value for 'stream_options': expected an object."),
        ({"logit_bias": {"x": 1}}, "Invalid value for 'logit_bias.x': expected text that matches '^[0-9]{1,10}$'."),
        ({"user": "x" * 513}, "Invalid value for 'user': expected at most 512 characters."),
    ],
)
def test_a_refusal_speaks_of_the_api_and_not_of_our_types(fields, says):
    with pytest.raises(InvalidRequest) as caught:
        validation.completion({"prompt": "a"} | fields)
    assert caught.value.message == says


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "hi"}]},
        {"add_generation_prompt": False},
        {"continue_final_message": True},
        {"max_completion_tokens": 3},
        {"top_logprobs": 2},
        {"tools": [{"type": "function"}]},
        {"tool_choice": "required"},
        {"include_reasoning": False},
        {"reasoning_max_tokens": 3},
        {"thinking_token_budget": 3},
    ],
)
def test_parameters_of_chat_alone_are_refused_for_completions(fields):
    with pytest.raises(InvalidRequest) as caught:
        validation.completion({"prompt": "a"} | fields)
    assert caught.value.code == "unsupported_parameter"


@pytest.mark.parametrize("prompt", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_all_four_forms_of_a_prompt_are_accepted(prompt):
    assert validation.completion({"prompt": prompt}).request.prompt == prompt


@pytest.mark.parametrize(
    "fields",
    [{"messages": []}, {}, {"disable_chat_template": True}, {"disable_chat_template": True, "messages": []}],
)
def test_a_chat_of_ids_needs_no_messages(fields):
    request = validation.chat({"prompt_token_ids": [5, 6], **fields}).request
    assert (request.given_ids, request.conversation) == ([5, 6], [])


@pytest.mark.parametrize("fields", [{"prompt": ""}, {"prompt": []}, {"prompt": None}, {}])
def test_a_completion_of_ids_needs_no_prompt(fields):
    request = validation.completion({"prompt_token_ids": [5, 6], **fields}).request
    assert (request.prompt_token_ids, request.prompt) == ([5, 6], None)


@pytest.mark.parametrize("ids", [{}, {"prompt_token_ids": None}])
@pytest.mark.parametrize(
    ("validate", "fields"),
    [
        (validation.chat, {"messages": []}),
        (validation.completion, {"prompt": ""}),
        (validation.completion, {"prompt": []}),
    ],
)
def test_an_empty_prompt_without_ids_is_refused(validate, fields, ids):
    with pytest.raises(InvalidRequest) as caught:
        validate({**fields, **ids})
    assert (caught.value.param, caught.value.code) == (next(iter(fields)), "invalid_value")


def test_no_alternatives_are_taken_without_log_probabilities():
    for logprobs in ({}, {"logprobs": None}, {"logprobs": False}):
        assert (
            parameters.chat_shape(validation.chat({**CHAT, **logprobs, "top_logprobs": 0}).request).alternatives is None
        )


def test_nothing_to_echo_means_no_zero_tokens():
    assert validation.completion({**TEXT, "max_tokens": 0, "echo": True}).request.max_tokens == 0
    with pytest.raises(InvalidRequest):
        validation.completion({**TEXT, "max_tokens": 0})


@pytest.mark.parametrize(
    ("validate", "fields"),
    [
        (validation.chat, CHAT),
        (validation.chat, {**CHAT, "logprobs": True, "use_beam_search": True}),
        (validation.completion, TEXT),
        (validation.completion, {**TEXT, "logprobs": 0, "echo": True, "max_tokens": 0}),
    ],
)
def test_named_ids_that_would_be_shown_nowhere_are_refused(validate, fields):
    validate({**fields, "logprob_token_ids": []})
    with pytest.raises(InvalidRequest) as caught:
        validate({**fields, "logprob_token_ids": [7]})
    assert caught.value.param == "logprob_token_ids"


UNSUPPORTED = [
    {"functions": [{"name": "f"}]},
    {"function_call": {"name": "f"}},
    {"lora_adapter": "x"},
    {"prompt_embeds": "x"},
    {"logits_processors": ["conch.Everything"]},
    {"include_logprobs_decode_token": False},
]


@pytest.mark.parametrize("fields", UNSUPPORTED)
def test_what_this_endpoint_does_not_have_is_named(fields):
    for validate, rest in ((validation.chat, CHAT), (validation.completion, TEXT)):
        with pytest.raises(InvalidRequest) as caught:
            validate({**rest, **fields})
        assert caught.value.code == "unsupported_parameter"
        assert str(caught.value.param).split(".")[0] in fields


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": None, "tool_choice": "none", "response_format": {"type": "text"}, "best_of": 1, "suffix": None},
        {"tools": [], "tool_choice": "auto", "use_beam_search": False, "length_penalty": 1.0, "priority": 0},
        {"n": 2, "best_of": 2},
        {"top_logprobs": 0},
        {"metadata": {"a": "b"}, "store": False, "service_tier": "auto", "reasoning_effort": "low"},
        {"add_generation_prompt": True, "continue_final_message": False, "parallel_tool_calls": False},
        {"stream": "false"},
        {"logit_bias": {"5": -100}, "stop": [], "seed": -1, "top_k": -1},
        {"stop": ["x"] * 16, "user": None, "temperature": 0},
        {"logprob_token_ids": None, "truncation_side": "left", "include_logprobs_decode_token": True},
    ],
)
def test_defaults_and_inert_fields_are_accepted(fields):
    assert validation.chat({**CHAT, **fields}).unknown_fields == 0
    assert validation.completion({**TEXT, **fields}).unknown_fields == 0


def test_variables_of_a_chat_template_are_refused_for_a_text_that_has_none():
    with pytest.raises(InvalidRequest) as caught:
        validation.completion({**TEXT, "chat_template_kwargs": {"enable_thinking": True}})
    assert (caught.value.param, caught.value.code) == ("chat_template_kwargs", "unsupported_parameter")
    assert "/v1/chat/completions" in caught.value.message


def test_unknown_fields_are_counted():
    assert validation.chat({**CHAT, "foo": 1, "bar": None}).unknown_fields == 2


def test_a_huge_wrong_value_is_not_echoed():
    with pytest.raises(InvalidRequest) as caught:
        validation.chat({**CHAT, "temperature": "SECRET" * 100_000})
    assert "SECRET" not in caught.value.message


SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"zzz": 1}}}


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"stream": True, "stream_options": {"include_usage": True, "zzz": 1}}, "stream_options.zzz"),
        ({"structured_outputs": {"regex": "a", "zzz": 1}}, "structured_outputs.zzz"),
        ({"response_format": {"type": "json_object", "zzz": 1}}, "response_format.zzz"),
        ({"response_format": {**SCHEMA, "zzz": 1}}, "response_format.zzz"),
        ({"response_format": {"type": "json_schema", "json_schema": {**SCHEMA["json_schema"], "zzz": 1}}},
         "response_format.json_schema.zzz"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ],
)  # fmt: skip
def test_an_order_that_nobody_knows_is_refused_wherever_it_stands(wrong, param):
    for take, known in ((validation.chat, CHAT), (validation.completion, TEXT)):
        with pytest.raises(InvalidRequest) as caught:
            take({**known, **wrong})
        assert caught.value.param == param


@pytest.mark.parametrize(
    "fine",
    [
        {"stream": True, "stream_options": {"include_usage": True, "zzz": None, "include_obfuscation": False}},
        {"response_format": {"type": "text", "json_schema": None}},
        {"response_format": SCHEMA},
        {"messages": [{"role": "user", "content": "hi", "zzz": 1}]},
        {"tools": [{"type": "function", "function": {"name": "f", "zzz": 1}, "zzz": 1}]},
    ],
)
def test_what_asks_for_nothing_or_is_a_note_may_stand_there(fine):
    validation.chat({**CHAT, **fine})
