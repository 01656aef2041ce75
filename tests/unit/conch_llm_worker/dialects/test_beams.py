"""What a beam search needs of a model, what it is sent, and how its beams are read."""

from typing import Any

import pytest

from conch_contracts.messages.generation import GenerateRequest, SamplingParameters
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects import fastertransformer, tensorrtllm
from conch_llm_worker.dialects.engine_call import EngineCall, PreparedChoice
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from testkit.builders.generate_requests import generate_request, prompt, sampling, target
from testkit.engines.engine_messages import inputs, response
from testkit.models.vocabularies import byte_level

FASTERTRANSFORMER = {
    **dict.fromkeys(("input_ids", "input_lengths", "request_output_len", "runtime_top_k", "beam_width"), "UINT32"),
    **dict.fromkeys(("runtime_top_p", "temperature", "len_penalty"), "FP32"),
    **dict.fromkeys(("random_seed",), "UINT64"),
    "is_return_log_probs": "BOOL",
}
TENSORRTLLM = {
    **dict.fromkeys(("input_ids", "input_lengths", "request_output_len", "runtime_top_k", "beam_width"), "INT32"),
    **dict.fromkeys(("runtime_top_p", "temperature", "len_penalty"), "FP32"),
    **dict.fromkeys(("streaming", "return_log_probs"), "BOOL"),
    **dict.fromkeys(("guided_decoding_guide_type", "guided_decoding_guide"), "BYTES"),
}
DECLARED = {Dialect.FASTERTRANSFORMER: FASTERTRANSFORMER, Dialect.TENSORRTLLM: TENSORRTLLM}
GREEDY = {Dialect.FASTERTRANSFORMER: {"runtime_top_k": [1], "runtime_top_p": [0.0]}}
DRAWING = {"runtime_top_k", "runtime_top_p"}

both = pytest.mark.parametrize("dialect", DECLARED)


def called(dialect: Dialect, without: str = "", declared: dict[str, Any] | None = None, **changes: Any) -> EngineCall:
    parameters = sampling(**{"beams": 2, "max_tokens": 4} | changes.pop("sampling", {}))
    types = {name: kind for name, kind in DECLARED[dialect].items() if name != without}
    shape = {"batched": True, "decoupled": True, "outputs": frozenset({"output_ids", "sequence_length"} - {without})}
    request = generate_request(target=target(dialect), sampling=parameters, **changes)
    return _engine_call(request, parameters, DeclaredTensors(types, **{**shape, **(declared or {})}))


def _engine_call(request: GenerateRequest, parameters: SamplingParameters, declared: DeclaredTensors) -> EngineCall:
    if request.target.dialect is Dialect.FASTERTRANSFORMER:
        return fastertransformer.engine_call(request, prompt().ids, parameters, declared)
    return tensorrtllm.engine_call(PreparedChoice(request, prompt(), parameters, declared, byte_level().text))


def sent(dialect: Dialect, **changes: Any) -> dict[str, list[Any]]:
    return {name: values for name, (_, _, values) in inputs(called(dialect, **changes).message).items()}


@both
def test_the_number_of_beams_is_sent_and_nothing_that_draws_tokens(dialect: Dialect) -> None:
    made = sent(dialect, sampling={"length_penalty": 1.5, "temperature": 0.5, "top_k": 4, "top_p": 0.5})
    assert (made["beam_width"], made["len_penalty"], made["temperature"]) == ([2], [1.5], [0.5])
    assert not DRAWING & set(made)


@both
def test_without_a_temperature_the_models_own_probabilities_count(dialect: Dialect) -> None:
    made = sent(dialect, sampling={"temperature": 0})
    assert (made["temperature"], made["len_penalty"]) == ([1.0], [1.0])


@both
def test_one_beam_is_the_likeliest_token_each_time(dialect: Dialect) -> None:
    made = sent(dialect, sampling={"beams": 1, "temperature": 0.5, "top_k": 4, "top_p": 0.5})
    assert (made["beam_width"], made["runtime_top_k"]) == ([1], [1])
    assert made.get("runtime_top_p") in (None, [0.0])


@both
def test_the_engine_ranks_its_beams_without_telling_how_likely_they_are(dialect: Dialect) -> None:
    assert not {"is_return_log_probs", "return_log_probs"} & set(sent(dialect, best_of=2))
    assert {"is_return_log_probs", "return_log_probs"} & set(sent(dialect, best_of=2, logprobs=True))


def test_a_search_of_tensorrtllm_is_not_streamed() -> None:
    assert sent(Dialect.TENSORRTLLM)["streaming"] == [False]
    assert sent(Dialect.TENSORRTLLM, sampling={"beams": None})["streaming"] == [True]


@both
@pytest.mark.parametrize(
    ("without", "changes", "param"),
    [
        ("beam_width", {}, "use_beam_search"),
        ("sequence_length", {}, "use_beam_search"),
        ("len_penalty", {"sampling": {"length_penalty": 2.0}}, "length_penalty"),
        ("temperature", {"sampling": {"temperature": 0.5}}, "temperature"),
    ],
)
def test_what_the_model_does_not_declare_is_refused_by_name(
    dialect: Dialect, without: str, changes: dict[str, Any], param: str
) -> None:
    called(dialect, **changes)
    with pytest.raises(InvalidRequest) as refusal:
        called(dialect, without, **changes)
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_parameter")


@both
def test_without_an_input_for_it_no_length_penalty_is_sent(dialect: Dialect) -> None:
    assert "len_penalty" not in sent(dialect, without="len_penalty")


@pytest.mark.parametrize(("setting", "refused"), [("1", True), ("2", False), ("${max_beam_width}", False), ("", False)])
def test_the_config_may_say_how_many_beams_there_are_at_most(setting: str, refused: bool) -> None:
    declared = {"settings": {"max_beam_width": setting}}
    if not refused:
        assert len(called(Dialect.TENSORRTLLM, declared=declared).beam_readers) == 2
        return
    with pytest.raises(InvalidRequest, match="at most 1 beams; 2") as refusal:
        called(Dialect.TENSORRTLLM, declared=declared)
    assert (refusal.value.param, refusal.value.code) == ("use_beam_search", "invalid_value")


def test_tensorrtllm_searches_for_no_form_and_takes_no_negative_penalty() -> None:
    form = {"grammar": Grammar(kind=GrammarKind.JSON_OBJECT, definition="")}
    for asked, param in ((form, "use_beam_search"), ({"length_penalty": -0.5}, "length_penalty")):
        with pytest.raises(InvalidRequest) as refusal:
            called(Dialect.TENSORRTLLM, sampling=asked)
        assert refusal.value.param == param


def test_a_model_of_text_searches_with_no_beams() -> None:
    types = {"text_input": "BYTES", "max_tokens": "INT32", "beam_width": "INT32", "temperature": "FP32"}
    parameters = sampling(beams=2)
    request = generate_request(target=target(Dialect.TENSORRTLLM), sampling=parameters)
    outputs = frozenset({"text_output", "sequence_length"})
    declared = DeclaredTensors(types, batched=True, decoupled=True, outputs=outputs)
    with pytest.raises(InvalidRequest) as refusal:
        _engine_call(request, parameters, declared)
    assert refusal.value.param == "use_beam_search"


def read(dialect: Dialect, rows: list[list[int]], lengths: list[int], **more: Any) -> list[TokenDelta]:
    kind = "UINT32" if dialect is Dialect.FASTERTRANSFORMER else "INT32"
    width = len(rows[0])
    message = response(
        final=True,
        output_ids=(kind, [1, len(rows), width], [id_ for row in rows for id_ in row]),
        sequence_length=(kind, [1, len(rows)], lengths),
        **more,
    )
    return [reader.read(message) for reader in called(dialect).beam_readers]


@both
def test_each_beam_is_its_own_row_up_to_its_own_length(dialect: Dialect) -> None:
    scores = {"output_log_probs": ("FP32", [1, 2, 4], [-1, -2, -3, -4, -5, -6, 0, 0])}
    found = read(dialect, [[1, 2, 3, 11, 12, 13, 14], [1, 2, 3, 15, 16, 0, 0]], [7, 5], **scores)
    assert found == [
        TokenDelta((11, 12, 13, 14), Logprobs((-1, -2, -3, -4), (), ()), end=EngineEnd.LENGTH),
        TokenDelta((15, 16), Logprobs((-5, -6), (), ()), end=EngineEnd.UNKNOWN),
    ]


def test_a_beam_that_is_not_there_is_no_empty_answer() -> None:
    only = response(output_ids=("INT32", [1, 1, 2], [11, 12]), sequence_length=("INT32", [1, 2], [2, 2]))
    with pytest.raises(MalformedResponse):
        tensorrtllm.IdsReader((), 5, streamed=False, beam=1).read(only)


@both
@pytest.mark.parametrize(
    ("rows", "lengths"),
    [
        ([[1, 2, 3, 11]], [4]),
        ([[1, 2, 3, 11], [1, 2, 3, 12]], [4]),
        ([[1, 2, 3, 11]], [4, 4]),
        ([[1, 2, 3, 11], [1, 2, 9, 11]], [4, 2]),
        ([[1, 2, 3, 11], [9, 9, 9, 9]], [4, 9]),
    ],
)
def test_beams_that_cannot_be_right_are_refused(dialect: Dialect, rows: list[list[int]], lengths: list[int]) -> None:
    with pytest.raises(MalformedResponse):
        read(dialect, rows, lengths)
