"""What TensorRT-LLM's models are sent, by what their configs declare, and how ids are read."""

import math
from typing import Any

import pytest

from conch_contracts.messages.generation import Api, Details, PreparedPrompt
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.records import Dialect, TextOutput
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.engine_call import EngineCall, PreparedChoice
from conch_llm_worker.dialects.tensorrtllm import IdsReader, engine_call
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs
from testkit.builders.generate_requests import backend, generate_request, prompt, sampling, target
from testkit.engines.engine_messages import inputs, response, text_inputs
from testkit.models.vocabularies import byte_level

IDS = {
    **dict.fromkeys(("input_ids", "input_lengths", "request_output_len", "end_id", "pad_id"), "INT32"),
    **dict.fromkeys(("runtime_top_k", "min_tokens", "stop_words_list", "bad_words_list"), "INT32"),
    **dict.fromkeys(("temperature", "runtime_top_p", "repetition_penalty", "presence_penalty"), "FP32"),
    "frequency_penalty": "FP32",
    "seed": "UINT64",
    **dict.fromkeys(("streaming", "return_log_probs", "exclude_input_in_output"), "BOOL"),
}
BLS = {
    **dict.fromkeys(("text_input", "bad_words", "stop_words"), "BYTES"),
    **dict.fromkeys(("max_tokens", "top_k", "end_id"), "INT32"),
    "top_p": "FP32",
    "temperature": "FP32",
    "seed": "UINT64",
    "stream": "BOOL",
    "return_num_output_tokens": "BOOL",
}
LLM_API = {
    "text_input": "BYTES",
    "streaming": "BOOL",
    "sampling_param_max_tokens": "INT32",
    "sampling_param_top_k": "INT32",
    "sampling_param_top_p": "FP32",
    "sampling_param_temperature": "FP32",
    "sampling_param_seed": "UINT64",
    "sampling_param_exclude_input_from_output": "BOOL",
}

WORDLESS = {name: kind for name, kind in IDS.items() if name != "bad_words_list"}
BANNED_IDS = {"sampling": {"bad_words": ((1,),)}, "bad_words_param": "bad_words_token_ids"}
INEXACT = PreparedPrompt(ids=(1,), text="a", text_is_exact=False)


def called(types: dict[str, str] = IDS, **changes: Any) -> EngineCall:
    parameters = sampling(**changes.pop("sampling", {}))
    asked, at = changes.pop("prompt", prompt()), changes.pop("at", None)
    shape: dict[str, Any] = {"batched": True, "decoupled": True, **changes.pop("declared", {})}
    request = generate_request(target=target(Dialect.TENSORRTLLM, text_output=at), sampling=parameters, **changes)
    return engine_call(PreparedChoice(request, asked, parameters, DeclaredTensors(types, **shape), byte_level().text))


def sent(types: dict[str, str] = IDS, **changes: Any) -> dict[str, list[Any]]:
    return {name: values for name, (_, _, values) in inputs(called(types, **changes).message).items()}


def test_ids_and_the_limit_are_sent_with_the_batch_dimension() -> None:
    made = inputs(called(sampling={"max_tokens": 5, "eos_token_ids": (9, 8)}).message)
    assert made["input_ids"] == ("INT32", [1, 3], [1, 2, 3])
    assert (made["input_lengths"], made["request_output_len"]) == (("INT32", [1, 1], [3]), ("INT32", [1, 1], [5]))
    assert (made["end_id"][2], made["pad_id"][2]) == ([9], [9])
    assert made["stop_words_list"] == ("INT32", [1, 2, 1], [8, 1])
    assert (made["streaming"][2], made["exclude_input_in_output"][2]) == ([True], [True])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sampling": {"temperature": 0}}, {"runtime_top_k": [1], "runtime_top_p": [1.0], "temperature": [1.0]}),
        (
            {"sampling": {"temperature": 0.5, "top_k": 4, "top_p": 0.5}},
            {"runtime_top_k": [4], "runtime_top_p": [0.5], "temperature": [0.5]},
        ),
        ({"sampling": {"temperature": 1}}, {"runtime_top_k": [0], "runtime_top_p": [1.0]}),
        ({"sampling": {"seed": -1}}, {"seed": [2**64 - 1]}),
        ({"sampling": {"min_tokens": 3}}, {"min_tokens": [3]}),
        ({"sampling": {"frequency_penalty": 0.5, "presence_penalty": 1}}, {"frequency_penalty": [0.5]}),
        ({"sampling": {"bad_words": ((1, 2), (3,))}}, {"bad_words_list": [1, 2, 3, 2, 3, -1]}),
        ({"sampling": {"ignore_eos": True, "eos_token_ids": (9,)}}, {"end_id": [-1], "pad_id": [9]}),
        (
            {"backend": backend(end_id=4), "sampling": {"eos_token_ids": (9,)}},
            {"end_id": [4], "stop_words_list": [9, 1]},
        ),
        ({"logprobs": True}, {"return_log_probs": [True]}),
        ({"best_of": 2}, {"return_log_probs": [True]}),
    ],
)
def test_parameters_become_tensors(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    made = sent(**changes)
    assert {name: made[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["ids", "text"])
def test_a_grammar_goes_to_the_tensors_for_it(name: str) -> None:
    guided = dict.fromkeys(("guided_decoding_guide_type", "guided_decoding_guide"), "BYTES")
    asked = {"grammar": Grammar(kind=GrammarKind.REGEX, definition="[0-9]+")}
    declared = IDS if name == "ids" else BLS
    made = text_inputs(called(declared | guided, sampling=asked).message)
    assert [made[tensor] for tensor in guided] == [[b"regex"], [b"[0-9]+"]]
    with pytest.raises(InvalidRequest) as refusal:
        called(declared, sampling=asked)
    assert (refusal.value.param, refusal.value.code) == ("response_format", "unsupported_parameter")
    with pytest.raises(InvalidRequest) as refusal:
        called(declared, sampling=asked, grammar_param="guided_regex")
    assert refusal.value.param == "guided_regex"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"best_of": 2}, "best_of"),
        ({"details": Details(token_ids=True)}, "return_token_ids"),
        ({"details": Details(max_frame_tokens=1)}, "max_streaming_response_tokens"),
        ({"details": Details(spaces_between_special_tokens=False)}, "spaces_between_special_tokens"),
    ],
)
def test_what_needs_ids_is_refused_by_models_of_text(changes: dict[str, Any], param: str) -> None:
    called(**changes)
    with pytest.raises(InvalidRequest) as refusal:
        called(BLS, **changes)
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"logit_bias": {1: 5.0, 3: -100.0}}, [0.0, 5.0, 0.0, -100.0]),
        ({"allowed_token_ids": (0, 2)}, [0.0, -math.inf, 0.0, -math.inf]),
        ({"allowed_token_ids": (0, 2), "logit_bias": {1: 5.0, 2: -1.5}}, [0.0, -math.inf, -1.5, -math.inf]),
    ],
)
def test_what_is_asked_of_single_ids_is_a_bias_of_the_whole_vocabulary(
    asked: dict[str, Any], expected: list[float]
) -> None:
    made = inputs(called({**IDS, "embedding_bias": "FP32"}, sampling=asked, backend=backend(vocab_size=4)).message)
    assert made["embedding_bias"] == ("FP32", [1, 4], expected)


@pytest.mark.parametrize("types", [IDS, BLS, LLM_API, {**IDS, "embedding_bias": "FP16"}])
@pytest.mark.parametrize(
    ("param", "asked"), [("logit_bias", {"logit_bias": {1: 5.0}}), ("allowed_token_ids", {"allowed_token_ids": (1,)})]
)
def test_nothing_is_asked_of_single_ids_where_no_bias_is_taken(
    types: dict[str, str], param: str, asked: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        called(types, sampling=asked, backend=backend(vocab_size=4))
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")


def test_what_does_nothing_is_not_sent() -> None:
    never = {"repetition_penalty", "presence_penalty", "frequency_penalty", "min_tokens", "bad_words_list", "end_id"}
    assert not never & set(sent())


def test_the_engine_stops_at_no_word_before_the_least_tokens() -> None:
    asked = {"backend": backend(stop_words=((5, 6),)), "sampling": {"min_tokens": 2}}
    assert "stop_words_list" not in sent(**asked)
    assert not called(**asked).stop_words_sent
    assert called(backend=backend(stop_words=((5, 6),))).stop_words_sent


def test_old_names_and_types_are_used_where_they_are_declared() -> None:
    old = {name: kind for name, kind in IDS.items() if name not in {"seed", "min_tokens"}}
    old |= {"random_seed": "UINT64", "min_length": "UINT32", "request_output_len": "UINT32"}
    made = inputs(called(old, sampling={"seed": 3, "min_tokens": 2}).message)
    assert (made["random_seed"][2], made["min_length"], made["request_output_len"][0]) == (
        [3],
        ("UINT32", [1, 1], [2]),
        "UINT32",
    )


@pytest.mark.parametrize("types", [BLS, LLM_API])
def test_models_of_text_get_text(types: dict[str, str]) -> None:
    call = called(types, sampling={"max_tokens": 5, "temperature": 0.5, "seed": 3})
    assert text_inputs(call.message) == {"text_input": [b"abc"]}
    values = [values for _, _, values in inputs(call.message).values()]
    assert [5] in values
    assert [3] in values
    assert (call.answers_text, call.stop_words_sent) == (True, False)


def test_the_first_versions_want_a_word_where_there_is_none() -> None:
    call = called(BLS, declared={"required": frozenset({"text_input", "max_tokens", "bad_words", "stop_words"})})
    assert text_inputs(call.message) == {"text_input": [b"abc"], "bad_words": [b""], "stop_words": [b""]}
    shapes = {given.name: list(given.shape) for given in call.message.inputs}
    assert shapes["bad_words"] == shapes["stop_words"]
    assert shapes["bad_words"][-1] == 1


def test_text_models_are_sent_bad_words_in_every_spelling_since_they_ban_just_what_they_get() -> None:
    bad = called(BLS, sampling={"bad_words": (tuple(b"no"), tuple(b" no"), tuple(b"no"))})
    assert text_inputs(bad.message)["bad_words"] == [b"no", b" no"]


def test_the_one_message_of_a_text_model_that_is_not_decoupled_ends_the_answer() -> None:
    reader = called(BLS, declared={"decoupled": False}).reader
    assert reader.read(response(text_output=("BYTES", [1], [b"abchi"]))).end is EngineEnd.UNKNOWN
    with pytest.raises(MalformedResponse):
        called(BLS, declared={"decoupled": False}).reader.read(response())


@pytest.mark.parametrize(
    ("types", "declared", "at", "whole"),
    [
        (BLS, {}, None, False),
        (BLS, {"settings": {"accumulate_tokens": "True"}}, None, True),
        (BLS, {"settings": {"accumulate_tokens": "true"}}, TextOutput.DELTA, False),
        (BLS, {}, TextOutput.CUMULATIVE, True),
        (LLM_API, {}, None, True),
        (LLM_API, {}, TextOutput.DELTA, False),
        (LLM_API, {"decoupled": False}, TextOutput.DELTA, True),
    ],
)
def test_the_config_or_the_deployment_says_what_a_message_holds(
    types: dict[str, str], declared: dict[str, Any], at: TextOutput | None, whole: bool
) -> None:
    reader = called(types, declared=declared, at=at).reader
    texts = [reader.read(response(text_output=("BYTES", [1], [raw]))).text for raw in (b"a", b"ab")]
    assert texts == ["a", "b" if whole else "ab"]


@pytest.mark.parametrize(
    ("types", "changes", "param"),
    [
        (IDS, {"sampling": {"min_p": 0.1}}, "min_p"),
        (IDS, {"sampling": {"logit_bias": {1: 1.0}}}, "logit_bias"),
        (IDS, {"logprobs": True, "sampling": {"logprobs": 2}}, "top_logprobs"),
        (IDS | {"end_id": "UINT32"}, {"sampling": {"ignore_eos": True}}, "ignore_eos"),
        (BLS, {"sampling": {"min_tokens": 2}}, "min_tokens"),
        (BLS, {"sampling": {"stop_token_ids": (3,)}}, "stop_token_ids"),
        (BLS, {"skip_special_tokens": False}, "skip_special_tokens"),
        (BLS, {"logprobs": True, "sampling": {"logprobs": 0}}, "logprobs"),
        (BLS, {"prompt": INEXACT}, "messages"),
        (BLS, {"prompt": INEXACT, "api": Api.COMPLETION}, "prompt"),
        (BLS, {"prompt": INEXACT, "api": Api.RESPONSES}, "input"),
        (LLM_API, {"sampling": {"ignore_eos": True}}, "ignore_eos"),
        (LLM_API, {"sampling": {"bad_words": (tuple(b"no"),)}}, "bad_words"),
        (
            LLM_API,
            {"sampling": {"bad_words": ((1,),)}, "bad_words_param": "bad_words_token_ids"},
            "bad_words_token_ids",
        ),
        (
            WORDLESS,
            {"sampling": {"bad_words": ((1,),)}, "bad_words_param": "bad_words_token_ids"},
            "bad_words_token_ids",
        ),
        (LLM_API, {"sampling": {"repetition_penalty": 2}}, "repetition_penalty"),
    ],
)
def test_what_the_model_cannot_do_is_refused_by_name(
    types: dict[str, str], changes: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        called(types, **changes)
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ({"input_ids": "INT32"}, "none of request_output_len"),
        ({"max_tokens": "INT32"}, "none of input_ids, text_input"),
    ],
)
def test_a_model_of_another_kind_is_told_from_this_one(types: dict[str, str], says: str) -> None:
    with pytest.raises(MalformedResponse, match=says):
        called(types)


@pytest.mark.parametrize("types", [IDS, BLS])
def test_a_model_that_needs_what_nobody_knows_is_not_called(types: dict[str, str]) -> None:
    needed = {"required": frozenset({"speaker"})}
    with pytest.raises(MalformedResponse, match="needs the input speaker"):
        called({**types, "speaker": "BYTES"}, declared=needed)


def ids_message(*ids: int, final: bool = False, length: int | None = None, logprobs: tuple[float, ...] = ()) -> Any:
    tensors: dict[str, Any] = {"output_ids": ("INT32", [1, 1, len(ids)], ids)}
    tensors["sequence_length"] = ("INT32", [1, 1], [len(ids) if length is None else length])
    if logprobs:
        tensors["output_log_probs"] = ("FP32", [1, 1, len(logprobs)], logprobs)
    return response(final=final, **tensors)


def test_new_ids_come_with_each_message() -> None:
    reader = IdsReader((), 10, streamed=True)
    deltas = [
        reader.read(message) for message in (ids_message(5), ids_message(6, 7, -1, length=2), ids_message(final=True))
    ]
    assert [delta.ids for delta in deltas] == [(5,), (6, 7), ()]
    assert [delta.end for delta in deltas] == [None, None, EngineEnd.UNKNOWN]


def test_a_full_count_is_the_limit() -> None:
    reader = IdsReader((), 2, streamed=True)
    reader.read(ids_message(5))
    assert reader.read(ids_message(6, final=True)).end is EngineEnd.LENGTH
    assert IdsReader((), 2, streamed=True).read(response(final=True)).end is EngineEnd.UNKNOWN


def test_the_prompt_is_left_out_of_an_answer_that_repeats_it() -> None:
    delta = IdsReader((1, 2), 10, streamed=False).read(ids_message(1, 2, 5, 6))
    assert (delta.ids, delta.end) == ((5, 6), EngineEnd.UNKNOWN)
    with pytest.raises(MalformedResponse, match="begin with the prompt"):
        IdsReader((1, 2), 10, streamed=False).read(ids_message(1, 5, 6))


@pytest.mark.parametrize("repeated", [True, False])
def test_log_probabilities_may_be_those_of_all_tokens_or_of_the_new_ones(repeated: bool) -> None:
    reader = IdsReader((), 10, streamed=True)
    reader.read(ids_message(5, logprobs=(-1.0,)))
    delta = reader.read(ids_message(6, 7, logprobs=(-1.0, -2.0, -3.0) if repeated else (-2.0, -3.0)))
    assert delta.logprobs == Logprobs((-2.0, -3.0), (), ())
    with pytest.raises(MalformedResponse, match="too few"):
        reader.read(ids_message(6, 7, logprobs=(-1.0,)))


def test_a_message_without_ids_breaks_the_contract() -> None:
    with pytest.raises(MalformedResponse):
        IdsReader((), 10, streamed=True).read(response())
