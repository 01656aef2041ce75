from typing import Any

import pytest

from conch_contracts.messages.generation import Api, Details
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.engine_call import EngineCall
from conch_llm_worker.dialects.fastertransformer import BufferReader, engine_call
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from testkit.builders.generate_requests import backend, generate_request, sampling, target
from testkit.engines.engine_messages import inputs, response

TYPES = {
    "input_ids": "UINT32",
    "input_lengths": "UINT32",
    "request_output_len": "UINT32",
    "runtime_top_k": "UINT32",
    "runtime_top_p": "FP32",
    "temperature": "FP32",
    "repetition_penalty": "FP32",
    "random_seed": "UINT64",
    "is_return_log_probs": "BOOL",
    "start_id": "UINT32",
    "end_id": "UINT32",
    "stop_words_list": "INT32",
    "bad_words_list": "INT32",
}
DECLARED = DeclaredTensors(datatypes=TYPES, batched=True, decoupled=True)


def declared(**added: str) -> DeclaredTensors:
    return DeclaredTensors(datatypes=TYPES | added, batched=True, decoupled=True)


def called(declared: DeclaredTensors = DECLARED, **changes: Any) -> EngineCall:
    parameters = sampling(**changes.pop("sampling", {}))
    request = generate_request(target=target(Dialect.FASTERTRANSFORMER), sampling=parameters, **changes)
    return engine_call(request, (7, 8, 9), parameters, declared)


def sent(declared: DeclaredTensors = DECLARED, **changes: Any) -> dict[str, Any]:
    return inputs(called(declared, **changes).message)


def test_the_prompt_and_the_limit_are_sent_with_the_batch_dimension() -> None:
    made = sent(sampling={"max_tokens": 5})
    assert made["input_ids"] == ("UINT32", [1, 3], [7, 8, 9])
    assert made["input_lengths"] == ("UINT32", [1, 1], [3])
    assert made["request_output_len"] == ("UINT32", [1, 1], [5])


def test_a_model_without_batching_gets_no_batch_dimension() -> None:
    made = sent(DeclaredTensors(TYPES, batched=False, decoupled=True), sampling={"stop_token_ids": (4,)})
    assert made["input_ids"] == ("UINT32", [3], [7, 8, 9])
    assert made["stop_words_list"] == ("INT32", [2, 1], [4, 1])


def test_values_take_the_type_that_the_model_declares() -> None:
    made = sent(declared(request_output_len="INT32", random_seed="INT64"), sampling={"seed": 3})
    assert made["request_output_len"][0] == "INT32"
    assert made["random_seed"] == ("INT64", [1, 1], [3])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sampling": {"temperature": 0}}, {"runtime_top_k": [1], "runtime_top_p": [0.0], "temperature": [1.0]}),
        (
            {"sampling": {"temperature": 0.5, "top_k": 4, "top_p": 0.5}},
            {"runtime_top_k": [4], "runtime_top_p": [0.5], "temperature": [0.5]},
        ),
        ({"sampling": {"seed": -1}}, {"random_seed": [2**64 - 1]}),
        ({"backend": backend(start_id=5, end_id=2)}, {"start_id": [5], "end_id": [2]}),
        ({"logprobs": True}, {"is_return_log_probs": [True]}),
    ],
)
def test_parameters_become_tensors(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    made = sent(**changes)
    assert {name: made[name][2] for name in expected} == expected


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"backend": backend(start_id=-1, end_id=-2)}, {"start_id", "end_id"}),
        ({"backend": backend(mask_positions=1)}, {"mask_positions"}),
        ({}, {"start_id", "end_id", "random_seed", "is_return_log_probs", "stop_words_list", "bad_words_list"}),
    ],
)
def test_what_is_negative_unset_or_not_declared_is_not_sent(changes: dict[str, Any], absent: set[str]) -> None:
    assert not absent & set(sent(**changes))


def test_mask_positions_are_sent_where_the_model_declares_them() -> None:
    assert sent(declared(mask_positions="INT32"), backend=backend(mask_positions=1))["mask_positions"][2] == [1]


def test_repetition_and_presence_penalty_are_never_sent_together() -> None:
    both = declared(presence_penalty="FP32")
    presence = sent(both, sampling={"presence_penalty": 0.5})
    assert presence["presence_penalty"][2] == [0.5]
    assert "repetition_penalty" not in presence
    assert "presence_penalty" not in sent(both, sampling={"repetition_penalty": 1.5})
    with pytest.raises(InvalidRequest, match="not both"):
        sent(both, sampling={"repetition_penalty": 1.5, "presence_penalty": 0.5})


REFUSED = [
    ("min_p", {"sampling": {"min_p": 0.1}}),
    ("frequency_penalty", {"sampling": {"frequency_penalty": 0.1}}),
    ("presence_penalty", {"sampling": {"presence_penalty": 0.1}}),
    ("logit_bias", {"sampling": {"logit_bias": {1: 1.0}}}),
    ("ignore_eos", {"sampling": {"ignore_eos": True}}),
    ("min_tokens", {"sampling": {"min_tokens": 2}}),
    ("top_logprobs", {"sampling": {"logprobs": 2}, "logprobs": True}),
    ("logprobs", {"sampling": {"logprobs": 2}, "logprobs": True, "api": Api.COMPLETION}),
    ("echo", {"sampling": {"logprobs": 0}, "logprobs": True, "echo": True, "api": Api.COMPLETION}),
    ("allowed_token_ids", {"sampling": {"allowed_token_ids": (1,)}}),
    ("prompt_logprobs", {"details": Details(prompt_logprobs=0)}),
    ("temp_scaled_logprobs", {"sampling": {"logprobs": 0, "temp_scaled_logprobs": True}, "logprobs": True}),
    ("top_p_normalized_logprobs", {"sampling": {"logprobs": 0, "top_p_normalized_logprobs": True}, "logprobs": True}),
    ("use_beam_search", {"sampling": {"beams": 2}}),
    ("vllm_xargs", {"backend": backend(extra_arguments={"a": 1})}),
    ("kv_transfer_params", {"backend": backend(kv_transfer={"a": 1})}),
]


def test_choices_can_be_ranked_only_where_the_model_tells_how_likely_they_are() -> None:
    assert sent(best_of=3)["is_return_log_probs"] == ("BOOL", [1, 1], [True])
    types = {name: type_ for name, type_ in TYPES.items() if name != "is_return_log_probs"}
    mute = DeclaredTensors(types, batched=True, decoupled=True)
    with pytest.raises(InvalidRequest) as refusal:
        sent(mute, best_of=3)
    assert refusal.value.param == "best_of"


@pytest.mark.parametrize(("param", "changes"), REFUSED, ids=[param for param, _ in REFUSED])
def test_what_the_engine_cannot_do_is_refused_by_name(param: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        sent(**changes)
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    "missing", ["temperature", "repetition_penalty", "bad_words_list", "is_return_log_probs", "random_seed"]
)
def test_what_this_model_does_not_declare_is_refused_only_when_asked_for(missing: str) -> None:
    lean = DeclaredTensors(
        {name: type_ for name, type_ in TYPES.items() if name != missing}, batched=True, decoupled=True
    )
    assert missing not in sent(lean)
    asked = {"temperature": 0.5, "repetition_penalty": 1.5, "bad_words": ((1,),), "seed": 3}
    with pytest.raises(InvalidRequest):
        sent(lean, sampling=asked, logprobs=True)


@pytest.mark.parametrize("param", ["bad_words", "bad_words_token_ids"])
def test_words_that_cannot_be_banned_are_refused_as_the_client_calls_them(param: str) -> None:
    types = {name: type_ for name, type_ in TYPES.items() if name != "bad_words_list"}
    lean = DeclaredTensors(types, batched=True, decoupled=True)
    with pytest.raises(InvalidRequest) as refusal:
        sent(lean, sampling={"bad_words": ((1,),)}, bad_words_param=param)
    assert refusal.value.param == param


def test_a_model_of_another_kind_is_told_from_this_one() -> None:
    with pytest.raises(MalformedResponse, match="input_lengths"):
        sent(DeclaredTensors({"input_ids": "UINT32"}, batched=True, decoupled=True))


def test_stop_ids_join_the_models_stop_words() -> None:
    made = sent(sampling={"stop_token_ids": (9,)}, backend=backend(stop_words=((4, 5),)))
    assert made["stop_words_list"] == ("INT32", [1, 2, 3], [4, 5, 9, 2, 3, -1])


def test_the_engine_stops_at_no_word_before_the_least_tokens() -> None:
    able = declared(min_length="UINT32")
    asked: dict[str, Any] = {"backend": backend(stop_words=((5, 6),)), "sampling": {"stop_token_ids": (9,)}}
    assert called(able, **asked).stop_words_sent
    asked["sampling"] = {"stop_token_ids": (9,), "min_tokens": 2}
    made = inputs(called(able, **asked).message)
    assert made["min_length"] == ("UINT32", [1, 1], [2])
    assert "stop_words_list" not in made
    assert not called(able, **asked).stop_words_sent


def buffer(ids: list[int], length: int, width: int, *, final: bool = False, **more: Any) -> Any:
    padded = ids + [0] * (width - len(ids))
    return response(
        final=final,
        output_ids=("UINT32", [1, 1, width], padded),
        sequence_length=("UINT32", [1, 1], [length]),
        **more,
    )


def test_a_growing_buffer_gives_each_token_once_and_the_repeat_nothing() -> None:
    reader = BufferReader(2, 3, decoupled=True)
    read = [
        reader.read(buffer([7, 8, 11], 3, 5)),
        reader.read(buffer([7, 8, 11, 12, 13], 5, 5)),
        reader.read(buffer([7, 8, 11, 12, 13], 5, 5, final=True)),
    ]
    assert read == [TokenDelta((11,)), TokenDelta((12, 13)), TokenDelta((), end=EngineEnd.LENGTH)]


def test_a_buffer_that_shrinks_gives_no_token_twice() -> None:
    reader = BufferReader(2, 5, decoupled=True)
    read = [
        reader.read(buffer([7, 8, 11, 12], 4, 6)),
        reader.read(buffer([7, 8, 11], 3, 6)),
        reader.read(buffer([7, 8, 11, 12, 13], 5, 6)),
    ]
    assert read == [TokenDelta((11, 12)), TokenDelta(()), TokenDelta((13,))]


def test_an_engine_that_stops_before_the_limit_leaves_the_reason_to_the_ids() -> None:
    reader = BufferReader(1, 9, decoupled=True)
    assert reader.read(buffer([7, 11], 2, 10, final=True)) == TokenDelta((11,), end=EngineEnd.UNKNOWN)
    assert BufferReader(1, 9, decoupled=True).read(response(final=True)) == TokenDelta((), end=EngineEnd.UNKNOWN)


def test_a_single_answer_holds_prompt_and_tokens() -> None:
    delta = BufferReader(2, 2, decoupled=False).read(buffer([7, 8, 11, 12], 4, 4))
    assert delta == TokenDelta((11, 12), end=EngineEnd.LENGTH)


@pytest.mark.parametrize("values", [[-1, -2], [0, 0, -1, -2]], ids=["after the prompt", "from the prompt on"])
def test_log_probabilities_of_either_version_belong_to_the_new_tokens(values: list[float]) -> None:
    reader = BufferReader(2, 2, decoupled=True)
    shown = {"output_log_probs": ("FP32", [1, 1, len(values)], values)}
    assert reader.read(buffer([7, 8, 11], 3, 4, **shown)).logprobs == Logprobs((-1.0,), (), ())
    assert reader.read(buffer([7, 8, 11, 12], 4, 4, **shown)).logprobs == Logprobs((-2.0,), (), ())


@pytest.mark.parametrize(
    "message",
    [
        buffer([7, 8], 9, 2),
        buffer([7, 8], 1, 2),
        response(),
        response(output_ids=("UINT32", [1, 1, 2], [7, 8])),
        buffer([7, 8, 11], 3, 3, output_log_probs=("FP32", [1, 1, 0], [])),
    ],
)
def test_a_buffer_that_cannot_be_right_is_refused(message: Any) -> None:
    with pytest.raises(MalformedResponse):
        BufferReader(2, 3, decoupled=True).read(message)
