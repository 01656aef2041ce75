"""Defaults, limits of the context, and what the tokenizer and the worker are told."""

import msgspec
import pytest

from conch_contracts.messages.generation import Details, PreparedPrompt
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.records import (
    ChatProfile,
    ContentFormat,
    Dialect,
    GenerationDefaults,
    Profile,
)
from conch_gateway.requests import parameters, tokenizer_request
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route


def chat(**fields):
    return ChatCompletionRequest.model_validate({"messages": [{"role": "user", "content": "hi"}], **fields})


def completion(**fields):
    return CompletionRequest.model_validate({"prompt": "hi", **fields})


def prepared(length=10, **fields):
    return PrepareResponse(prompts=(PreparedPrompt(ids=tuple(range(length)), text="x"),), **fields)


def sampled(request, shape, length=10, known=None):
    model = known or route()
    return parameters.sampling(request, shape(request, model.profile), model, prepared(length))


@pytest.mark.parametrize(
    ("request_", "shape", "model", "expected"),
    [
        (chat(), parameters.chat_shape, None, 54),
        (chat(max_tokens=5), parameters.chat_shape, None, 5),
        (chat(max_tokens=5, max_completion_tokens=7), parameters.chat_shape, None, 7),
        (chat(), parameters.chat_shape, 20, 20),
        (chat(), parameters.chat_shape, 2048, 54),
        (completion(), parameters.completion_shape, None, 16),
        (completion(), parameters.completion_shape, 20, 20),
        (completion(max_tokens=54), parameters.completion_shape, None, 54),
        (completion(max_tokens=0, echo=True), parameters.completion_shape, None, 0),
    ],
)
def test_the_limit_of_output_tokens(request_, shape, model, expected):
    known = route(generation=GenerationDefaults(max_tokens=model))
    assert sampled(request_, shape, known=known).max_tokens == expected


@pytest.mark.parametrize(
    ("request_", "shape", "length", "param"),
    [
        (chat(max_tokens=55), parameters.chat_shape, 10, "max_tokens"),
        (chat(max_completion_tokens=2), parameters.chat_shape, 63, "max_completion_tokens"),
        (chat(), parameters.chat_shape, 64, "messages"),
        (chat(max_tokens=1), parameters.chat_shape, 64, "messages"),
        (chat(max_tokens=10**9), parameters.chat_shape, 1, "max_tokens"),
        (completion(max_tokens=44), parameters.completion_shape, 21, "max_tokens"),
        (completion(), parameters.completion_shape, 70, "prompt"),
    ],
)
def test_more_than_the_context_is_refused_with_the_counts(request_, shape, length, param):
    with pytest.raises(InvalidRequest) as caught:
        sampled(request_, shape, length)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", param)
    assert caught.value.message.startswith("This model's maximum context length is 64 tokens. However, ")
    assert str(length) in caught.value.message


def test_a_limit_beyond_the_context_is_lowered_for_fastdeploys_clients():
    known = route(profile=Profile.FASTDEPLOY)
    assert sampled(chat(max_tokens=1000), parameters.chat_shape, 60, known=known).max_tokens == 4
    with pytest.raises(InvalidRequest):
        sampled(chat(max_tokens=1000), parameters.chat_shape, 64, known=known)


def test_a_value_comes_from_the_request_else_the_model_else_the_api():
    known = route(generation=GenerationDefaults(temperature=0.3, top_p=0.9, top_k=5, repetition_penalty=1.2))
    asked = sampled(chat(temperature=0, top_k=-1), parameters.chat_shape, known=known)
    assert (asked.temperature, asked.top_p, asked.top_k, asked.repetition_penalty) == (0, 0.9, 0, 1.2)
    plain = sampled(chat(), parameters.chat_shape)
    assert (plain.temperature, plain.top_p, plain.top_k, plain.repetition_penalty) == (1.0, 1.0, 0, 1.0)


@pytest.mark.parametrize("fields", [{}, {"temperature": 1.5}])
def test_the_likeliest_tokens_without_any_probability_are_the_likeliest_of_all(fields):
    known = route(generation=GenerationDefaults(temperature=0.3, top_p=0.9))
    made = sampled(chat(top_p=0, **fields), parameters.chat_shape, known=known)
    assert (made.temperature, made.top_p) == (0, 1)


@pytest.mark.parametrize("flag", ["temp_scaled_logprobs", "top_p_normalized_logprobs"])
def test_a_top_p_of_0_leaves_one_token_and_the_log_probabilities_that_were_asked_for(flag: str) -> None:
    made = sampled(chat(top_p=0, temperature=0.5, **{flag: True}), parameters.chat_shape)
    assert (made.temperature, made.top_p) == (0.5, 1e-6)


@pytest.mark.parametrize("request_", [chat(top_p=0), completion(top_p=0.0)])
def test_a_top_p_of_0_is_for_fastdeploys_clients(request_):
    parameters.check_habits(request_, Profile.FASTDEPLOY)
    for profile in (Profile.OPENAI, Profile.DENGLIN):
        with pytest.raises(InvalidRequest) as caught:
            parameters.check_habits(request_, profile)
        assert (caught.value.param, caught.value.code) == ("top_p", "invalid_value")


@pytest.mark.parametrize(
    ("stop", "meant", "param"),
    [("", (), "stop"), ([""], (), "stop.0"), (["x", ""], ("x",), "stop.1")],
)
def test_an_empty_stop_string_stands_for_none_with_fastdeploys_clients(stop, meant, param):
    parameters.check_habits(chat(stop=stop), Profile.FASTDEPLOY)
    assert tokenizer_request.stop_strings(chat(stop=stop)) == meant
    with pytest.raises(InvalidRequest) as caught:
        parameters.check_habits(chat(stop=stop), Profile.OPENAI)
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")


def test_more_minimum_than_maximum_is_refused():
    with pytest.raises(InvalidRequest, match="min_tokens"):
        sampled(chat(min_tokens=6, max_tokens=5), parameters.chat_shape)


def test_a_negative_seed_reaches_the_engine_as_a_number_it_takes():
    assert sampled(chat(seed=-1), parameters.chat_shape).seed == 2**63 - 1
    assert sampled(chat(seed=7), parameters.chat_shape).seed == 7


@pytest.mark.parametrize(
    ("request_", "shape", "logprobs", "prompt_logprobs"),
    [
        (chat(), parameters.chat_shape, None, None),
        (chat(logprobs=True), parameters.chat_shape, 0, None),
        (chat(logprobs=True, top_logprobs=3), parameters.chat_shape, 3, None),
        (completion(logprobs=2), parameters.completion_shape, 2, None),
        (completion(logprobs=2, echo=True), parameters.completion_shape, 2, 2),
    ],
)
def test_log_probabilities_are_asked_for_only_when_shown(request_, shape, logprobs, prompt_logprobs):
    asked = sampled(request_, shape)
    assert (asked.logprobs, asked.prompt_logprobs) == (logprobs, prompt_logprobs)


def test_words_of_model_and_request_come_together():
    known = route(generation=GenerationDefaults(bad_words=((1, 2),), stop_words=((2,), (3, 4)), start_id=-1, end_id=5))
    answer = prepared(bad_words=((9,),), stop_words=((8,),))
    asked = parameters.sampling(chat(stop_token_ids=[7]), parameters.chat_shape(chat()), known, answer)
    assert asked.bad_words == ((1, 2), (9,))
    assert asked.stop_token_ids == (7, 2)
    options = parameters.backend_options(chat(), known, answer)
    assert (options.start_id, options.end_id, options.stop_words) == (None, 5, ((2,), (3, 4), (8,)))


def test_the_role_follows_the_generation_prompt():
    assert parameters.chat_shape(chat()).role == "assistant"
    assert parameters.chat_shape(chat(add_generation_prompt=False)).role == "user"


def test_a_chat_is_prepared_from_flat_messages():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    asked = tokenizer_request.chat(chat(messages=[{"role": "user", "content": parts, "name": "ann"}]), route())
    assert asked.chat is not None
    assert asked.chat.messages == ({"role": "user", "content": "a\nb", "name": "ann"},)
    assert asked.chat.part_lengths == {0: (1, 1)}
    assert not asked.add_special_tokens


@pytest.mark.parametrize("said", ContentFormat)
def test_the_form_of_content_is_the_deployments_unless_the_request_brings_a_template(said):
    model = route(chat=ChatProfile(content_format=said))
    own = tokenizer_request.chat(chat(chat_template="{{ messages }}"), model).chat
    asked = tokenizer_request.chat(chat(), model).chat
    assert asked is not None
    assert own is not None
    assert (asked.content_format, own.content_format) == (said, ContentFormat.AUTO)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("a", ("a",)), (["a", "b"], ("a", "b")), ([1, 2], ((1, 2),)), ([[1], [2, 3]], ((1,), (2, 3)))],
)
def test_every_form_of_a_prompt_is_prepared(prompt, expected):
    asked = tokenizer_request.completion(completion(prompt=prompt), route())
    assert asked.prompts == expected
    assert asked.add_special_tokens


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop_token_ids": [1000]}, "stop_token_ids"),
        ({"logit_bias": {"1000": 1}}, "logit_bias"),
        ({"prompt_token_ids": [1000]}, "prompt_token_ids"),
        ({"allowed_token_ids": [1000]}, "allowed_token_ids"),
        ({"logprob_token_ids": [1000]}, "logprob_token_ids"),
        ({"bad_words_token_ids": [1000]}, "bad_words_token_ids"),
    ],
)
def test_an_id_that_the_model_does_not_have_is_refused(fields, param):
    with pytest.raises(InvalidRequest) as caught:
        tokenizer_request.check_ids(completion(**fields), route())
    assert caught.value.param == param


def test_a_prompt_of_ids_that_the_model_does_not_have_is_refused():
    with pytest.raises(InvalidRequest) as caught:
        tokenizer_request.completion(completion(prompt=[[1], [1000]]), route())
    assert caught.value.param == "prompt.1"


@pytest.mark.parametrize(("dialect", "words"), [(Dialect.TOKENS, ()), (Dialect.FASTERTRANSFORMER, ("x",))])
def test_stop_words_become_ids_only_where_the_engine_needs_them(dialect, words):
    assert tokenizer_request.chat(chat(stop="x"), route(dialect=dialect)).stop_words == words


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"allowed_token_ids": [3, 4]}, {"allowed_token_ids": (3, 4)}),
        ({"logprob_token_ids": [3, 4]}, {"logprob_token_ids": (3, 4)}),
        ({"bad_words_token_ids": [3, 4]}, {"bad_words": ((3,), (4,))}),
        ({"min_p": 0.2}, {"min_p": 0.2}),
        ({"best_of": 3}, {"logprobs": 0}),
        ({"n": 3, "best_of": 3}, {"logprobs": None}),
        ({"prompt_logprobs": 4}, {"prompt_logprobs": 4}),
        ({"temp_scaled_logprobs": True}, {"temp_scaled_logprobs": True}),
        ({"top_p_normalized_logprobs": True}, {"top_p_normalized_logprobs": True}),
        ({"use_beam_search": True, "n": 4, "length_penalty": 1.5}, {"beams": 4, "length_penalty": 1.5}),
        ({"use_beam_search": True, "n": 2, "best_of": 4}, {"beams": 4, "logprobs": None}),
        ({"use_beam_search": True, "top_p": 1, "top_k": -1}, {"beams": 1}),
        ({"metadata": {"min_tokens": 3}}, {"min_tokens": 3}),
        ({"metadata": {"min_tokens": "3"}}, {"min_tokens": 3}),
        ({"metadata": {"min_tokens": 3}, "min_tokens": 1}, {"min_tokens": 1}),
    ],
)
def test_a_parameter_reaches_the_engine(fields, expected):
    plain = msgspec.structs.asdict(sampled(chat(), parameters.chat_shape))
    for request, shape in (
        (chat(**fields), parameters.chat_shape),
        (completion(**fields), parameters.completion_shape),
    ):
        asked = msgspec.structs.asdict(sampled(request, shape))
        assert asked | {"max_tokens": 0} == plain | expected | {"max_tokens": 0}


@pytest.mark.parametrize("said", [-1, "1.5", "many"])
def test_a_least_length_in_the_metadata_is_checked_too(said):
    with pytest.raises(InvalidRequest) as caught:
        sampled(chat(metadata={"min_tokens": said}), parameters.chat_shape)
    assert caught.value.param == "metadata.min_tokens"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"return_token_ids": True}, {"token_ids": True}),
        ({"return_tokens_as_token_ids": True}, {"tokens_as_ids": True}),
        ({"spaces_between_special_tokens": False}, {"spaces_between_special_tokens": False}),
        ({"prompt_logprobs": 0}, {"prompt_logprobs": 0}),
        ({"service_tier": "auto"}, {"service_tier": "default"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"metadata": {"a": "b"}, "stream": True}, None),
        ({"kv_transfer_params": {"a": [1]}}, {"kv_transfer": {"a": [1]}}),
        ({"kv_transfer_params": {"a": [1]}, "stream": True}, None),
        ({"max_streaming_response_tokens": 4}, None),
        ({"max_streaming_response_tokens": 4, "stream": True}, {"max_frame_tokens": 4}),
        ({"stream_options": {"continuous_usage_stats": True}, "stream": True}, {"continuous_usage": True}),
    ],
)
def test_a_plain_request_has_no_details_and_another_has_its_own(fields, expected):
    made = parameters.details(chat(**fields), parameters.chat_shape(chat(**fields)), route())
    assert made == (None if expected is None else Details(**expected))


def test_the_deployments_profile_is_a_detail():
    made = parameters.details(chat(), parameters.chat_shape(chat()), route(profile=Profile.DENGLIN))
    assert made == Details(profile=Profile.DENGLIN)
    assert parameters.chat_shape(chat(), Profile.DENGLIN).role == "user"


LAST = [{"role": "user", "content": "Say"}, {"role": "assistant", "content": "Well, "}]


@pytest.mark.parametrize(
    ("fields", "prefix"),
    [
        ({"messages": LAST, "echo": True}, "Well, "),
        ({"messages": LAST}, ""),
        ({"echo": True}, ""),
        ({"echo": True, "add_generation_prompt": False}, "hi"),
    ],
)
def test_an_echo_of_a_chat_is_the_last_message_of_the_same_role(fields, prefix):
    assert parameters.chat_shape(chat(**fields)).prefix == prefix


@pytest.mark.parametrize("fields", [{"messages": [5, 6]}, {"prompt_token_ids": [5, 6], "messages": None}])
def test_a_chat_can_be_given_as_ids(fields):
    asked = tokenizer_request.chat(chat(**fields), route())
    assert (asked.chat, asked.prompts) == (None, ((5, 6),))


def test_a_chat_without_its_template_is_its_first_message():
    asked = tokenizer_request.chat(
        chat(messages=[{"role": "user", "content": "<raw>"}], disable_chat_template=True), route()
    )
    assert (asked.chat, asked.prompts, asked.add_special_tokens) == (None, ("<raw>",), False)


def test_documents_and_variables_reach_the_template():
    documents = [{"title": "t", "text": "x"}]
    asked = tokenizer_request.chat(
        chat(documents=documents, chat_template_kwargs={"enable_thinking": False}), route()
    ).chat
    assert asked is not None
    assert asked.documents == ({"title": "t", "text": "x"},)
    assert asked.template_kwargs == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("request_", "prepare", "kept"),
    [
        (chat(truncate_prompt_tokens=5), tokenizer_request.chat, 5),
        (chat(truncate_prompt_tokens=-1), tokenizer_request.chat, 48),
        (chat(truncate_prompt_tokens=-1, max_tokens=24), tokenizer_request.chat, 40),
        (completion(truncate_prompt_tokens=-1), tokenizer_request.completion, 48),
        (completion(truncate_prompt_tokens=-1, max_tokens=100), tokenizer_request.completion, 1),
    ],
)
def test_a_prompt_is_cut_to_what_leaves_room_for_the_answer(request_, prepare, kept):
    assert prepare(request_, route()).truncate_prompt_tokens == kept


@pytest.mark.parametrize(
    ("asked", "side"), [({}, "left"), ({"truncation_side": None}, "left"), ({"truncation_side": "right"}, "right")]
)
def test_the_request_says_at_which_end_its_prompt_is_cut(asked, side):
    assert tokenizer_request.chat(chat(truncate_prompt_tokens=5, **asked), route()).truncation_side == side
    assert tokenizer_request.completion(completion(truncate_prompt_tokens=5, **asked), route()).truncation_side == side


@pytest.mark.parametrize(
    ("asked", "kept", "given"), [(5000, 48, 16), (64, 48, 16), (24, 48, 16), (3, 61, 3), (None, 48, 16)]
)
def test_where_the_answers_limit_is_lowered_it_cuts_no_prompt(asked, kept, given):
    known, request = route(profile=Profile.FASTDEPLOY), chat(truncate_prompt_tokens=-1, max_tokens=asked)
    assert tokenizer_request.chat(request, known).truncate_prompt_tokens == kept
    assert sampled(request, parameters.chat_shape, kept, known).max_tokens == given


@pytest.mark.parametrize(
    ("dialect", "fields", "expected"),
    [
        (Dialect.FASTERTRANSFORMER, {}, ("temperature", "min_p")),
        (Dialect.TENSORRTLLM, {"temperature": 1}, ("min_p",)),
        (Dialect.TENSORRTLLM, {"temperature": 1, "min_p": 0}, ()),
        (Dialect.TOKENS, {}, ()),
    ],
)
def test_a_worker_is_told_which_values_nobody_but_the_model_asks_for(dialect, fields, expected):
    known = route(dialect=dialect, generation=GenerationDefaults(temperature=0.6, min_p=0.1))
    assert parameters.defaulted(chat(**fields), known) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "bad_words"),
        ({"bad_words": ["a"]}, "bad_words"),
        ({"bad_words": ["a"], "bad_words_token_ids": [3]}, "bad_words"),
        ({"bad_words": [], "bad_words_token_ids": [3]}, "bad_words_token_ids"),
    ],
)
def test_a_worker_is_told_what_the_client_calls_the_words_that_must_not_appear(fields, param):
    assert parameters.bad_words_param(chat(**fields)) == param


@pytest.mark.parametrize(
    ("fields", "size"), [({}, None), ({"logit_bias": {"3": 1}}, 2048), ({"allowed_token_ids": [3]}, 2048)]
)
def test_an_engine_is_told_the_vocabulary_where_single_ids_are_asked_for(fields, size):
    made = parameters.backend_options(chat(**fields), route(vocab_size=2048), PrepareResponse(prompts=()))
    assert made.vocab_size == size
