import json

import numpy as np
import pytest

from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.requests import GenerationRequest, ModelLimits, parse_request

LIMITS = ModelLimits(vocabulary=50, context=20)


def _parse(prompt: list[int] | None = None, **fields: object) -> GenerationRequest:
    raw = json.dumps({"max_tokens": 5, **fields}).encode()
    return parse_request(np.array([1] if prompt is None else prompt, np.int32), raw, LIMITS)


@pytest.mark.parametrize(("length", "wanted", "allowed"), [(1, 5, 5), (15, 5, 5), (16, 5, 4), (19, 5, 1), (20, 0, 0)])
def test_max_tokens_is_cut_to_the_context(length: int, wanted: int, allowed: int) -> None:
    assert _parse([1] * length, max_tokens=wanted).sampling.max_tokens == allowed


@pytest.mark.parametrize(("seed", "kept"), [(7, 7), (0, 0), (-1, 2**64 - 1), (2**64 + 3, 3)])
def test_any_whole_number_is_a_seed(seed: int, kept: int) -> None:
    assert _parse(seed=seed).seed == kept


def test_without_a_seed_one_is_drawn() -> None:
    assert _parse().seed != _parse().seed


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"prompt": []}, "input_ids"),
        ({"prompt": [-1]}, "input_ids"),
        ({"prompt": [50]}, "input_ids"),
        ({"prompt": [1] * 20}, "input_ids"),
        ({"prompt": [1] * 21, "max_tokens": 0}, "input_ids"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "parameters: JSON is malformed"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": 2}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"frequency_penalty": float("inf")}, "parameters: JSON is malformed"),
        ({"logit_bias": {"50": 1}}, "logit_bias"),
        ({"stop_token_ids": [50]}, "stop_token_ids"),
        ({"bad_words": [[1, 50]]}, "bad_words"),
        ({"bad_words": [[]]}, "bad_words"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"allowed_token_ids": [50]}, "allowed_token_ids"),
        ({"beams": 4}, "beams"),
        ({"logprobs": -1}, "logprobs"),
        ({"beam_width": 4}, "beam_width"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(fields: dict, named: str) -> None:
    with pytest.raises(UnservableRequest, match=f"^{named}"):
        _parse(**fields)


def test_parameters_that_are_no_json_are_refused() -> None:
    with pytest.raises(UnservableRequest, match=r"^parameters"):
        parse_request(np.array([1], np.int32), b"{", LIMITS)


@pytest.mark.parametrize("ids", [[40], [40] * 2000])
def test_parameters_that_one_model_took_are_checked_for_another(ids: list[int]) -> None:
    raw = json.dumps({"max_tokens": 5, "stop_token_ids": ids}).encode()
    prompt = np.array([1], np.int32)
    parse_request(prompt, raw, LIMITS)
    with pytest.raises(UnservableRequest, match=r"^stop_token_ids"):
        parse_request(prompt, raw, ModelLimits(vocabulary=40, context=20))
