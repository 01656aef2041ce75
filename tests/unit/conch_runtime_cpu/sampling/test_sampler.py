import numpy as np
import pytest
from numpy.typing import NDArray

from conch_contracts.messages.generation import SamplingParameters
from conch_runtime_cpu.requests import GenerationRequest
from conch_runtime_cpu.sampling.sampler import NO_TOKEN, Sampler

LOGITS = np.array([[1.0, 3.0, 2.9, 0.5, -1.0]], np.float32)


def _request(prompt: tuple[int, ...] = (0,), mask: object = None, **fields: object) -> GenerationRequest:
    sampling = SamplingParameters(**{"max_tokens": 10, "temperature": 0.0, **fields})
    return GenerationRequest(np.array(prompt, np.int64), sampling, seed=sampling.seed or 0, mask=mask)


def _greedy_tokens(request: GenerationRequest, steps: int) -> list[int]:
    sampler = Sampler(2, 5)
    sampler.admit(1, request)
    return [sampler.choose(LOGITS, np.array([1])).tokens[0] for _ in range(steps)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"frequency_penalty": 0.2}, [1, 2, 1, 2]),
        ({"presence_penalty": 1.0}, [1, 2, 1, 1]),
        ({"repetition_penalty": 2.0}, [1, 2, 1, 1]),
        ({"prompt": (1,), "repetition_penalty": 2.0}, [2, 1, 1, 1]),  # the prompt counts
        ({"prompt": (1,), "presence_penalty": 1.0}, [1, 2, 1, 1]),  # the prompt does not count
        ({"logit_bias": {3: 100.0}}, [3, 3, 3, 3]),
        ({"logit_bias": {1: -100.0}}, [2, 2, 2, 2]),
        ({"bad_words": ((1,),)}, [2, 2, 2, 2]),
        ({"bad_words": ((1, 1),)}, [1, 2, 1, 2]),
        ({"bad_words": ((1, 2), (1, 1))}, [1, 0, 1, 0]),
        ({"prompt": (1,), "bad_words": ((1, 1),)}, [1, 2, 1, 2]),  # bad words look at the answer only
        ({"min_tokens": 2, "eos_token_ids": (1,)}, [2, 2, 1, 1]),
        ({"min_tokens": 1, "stop_token_ids": (1, 2)}, [0, 1, 1, 1]),
        ({"allowed_token_ids": (3, 4)}, [3, 3, 3, 3]),
        ({"allowed_token_ids": (1, 3), "bad_words": ((1,),)}, [3, 3, 3, 3]),
        ({"allowed_token_ids": (1, 3), "eos_token_ids": (1,), "min_tokens": 2}, [3, 3, 1, 1]),
    ],
)
def test_greedy_answers_follow_the_parameters(fields: dict, expected: list[int]) -> None:
    assert _greedy_tokens(_request(**fields), 4) == expected


class _OnlyEven:
    """A real mask: even ids, and never the same twice."""

    complete = finished = False
    fault = ""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def fill(self, allowed: NDArray[np.bool_]) -> None:
        allowed[:] = False
        allowed[::2] = True
        allowed[self.taken] = False

    def accept(self, token: int) -> None:
        self.taken.append(token)


def test_a_mask_decides_what_may_come_and_an_empty_one_is_told() -> None:
    assert _greedy_tokens(_request(mask=_OnlyEven()), 4) == [2, 0, 4, NO_TOKEN]


def test_a_mask_holds_for_drawn_tokens_too() -> None:
    drawn = _greedy_tokens(_request(mask=_OnlyEven(), temperature=5.0, seed=3), 3)
    assert sorted(drawn) == [0, 2, 4]


def test_rows_keep_their_own_parameters_in_one_batch() -> None:
    sampler = Sampler(4, 5)
    requests = [
        _request(),
        _request(logit_bias={4: 50.0}),
        _request(frequency_penalty=0.2),
        _request(bad_words=((1,),)),
    ]
    for slot, request in enumerate(requests):
        sampler.admit(slot, request)
    slots = np.array([3, 1, 0, 2])
    batch = np.repeat(LOGITS, 4, axis=0)
    assert sampler.choose(batch, slots).tokens == [2, 4, 1, 1]
    assert sampler.choose(batch, slots).tokens == [2, 4, 1, 2]


def test_a_seed_gives_the_same_tokens_alone_and_among_others() -> None:
    logits = np.random.default_rng(1).standard_normal((20, 5)).astype(np.float32)
    alone, crowded = Sampler(1, 5), Sampler(3, 5)
    request = _request(temperature=1.0, seed=11, top_p=0.9)
    alone.admit(0, request)
    crowded.admit(2, request)
    crowded.admit(0, _request(temperature=1.5, seed=5, frequency_penalty=1.0))
    crowded.admit(1, _request())
    for row in logits:
        together = crowded.choose(np.stack([row[::-1], row, row]), np.array([0, 2, 1]))
        assert alone.choose(row[None], np.array([0])).tokens[0] == together.tokens[1]


def test_a_slot_keeps_nothing_of_its_last_request() -> None:
    sampler = Sampler(1, 5)
    sampler.admit(0, _request(mask=_OnlyEven(), frequency_penalty=2.0, logit_bias={4: 100.0}, logprobs=2))
    sampler.choose(LOGITS, np.array([0]))
    sampler.release(0)
    sampler.admit(0, _request(frequency_penalty=0.2))
    choices = [sampler.choose(LOGITS, np.array([0])) for _ in range(2)]
    assert [choice.tokens for choice in choices] == [[1], [2]]
    assert choices[0].logprobs == {}


def test_log_probabilities_are_those_of_the_raw_logits() -> None:
    sampler = Sampler(2, 5)
    sampler.admit(0, _request(logprobs=2, logit_bias={4: 100.0}, temperature=0.7))
    sampler.admit(1, _request(logprobs=0))
    choice = sampler.choose(np.repeat(LOGITS, 2, axis=0), np.array([0, 1]))
    raw = LOGITS[0] - np.log(np.exp(LOGITS[0]).sum())
    assert choice.tokens == [4, 1]
    assert choice.logprobs[0].chosen == pytest.approx(raw[4], abs=1e-5)
    assert choice.logprobs[0].top_ids == [1, 2]
    assert choice.logprobs[0].top_logprobs == pytest.approx(raw[[1, 2]], abs=1e-5)
    assert choice.logprobs[1].top_ids == []


def _logs(values: NDArray[np.float32]) -> list[float]:
    return (values - np.log(np.exp(values).sum())).tolist()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temp_scaled_logprobs": True}, _logs(LOGITS[0] / 0.5)),
        ({"temp_scaled_logprobs": True, "temperature": 0.0}, _logs(LOGITS[0])),
        # At this temperature the two likeliest ids make up 90 %.
        ({"top_p_normalized_logprobs": True, "top_p": 0.9}, _logs(LOGITS[0][1:3])),
        ({"top_p_normalized_logprobs": True, "temp_scaled_logprobs": True, "top_p": 0.9}, _logs(LOGITS[0][1:3] / 0.5)),
        ({"top_p_normalized_logprobs": True}, _logs(LOGITS[0])),
    ],
)
def test_log_probabilities_can_be_those_of_what_is_drawn_from(fields: dict, expected: list[float]) -> None:
    sampler = Sampler(2, 5)
    sampler.admit(0, _request(**{"logprobs": 2, "temperature": 0.5, **fields}))
    sampler.admit(1, _request(logprobs=2))
    first, second = expected if len(expected) == 2 else expected[1:3]
    choice = sampler.choose(np.repeat(LOGITS, 2, axis=0), np.array([0, 1]))
    assert choice.logprobs[0].top_ids == [1, 2]
    assert choice.logprobs[0].top_logprobs == pytest.approx([first, second], abs=1e-5)
    assert choice.logprobs[1].top_logprobs == pytest.approx(_logs(LOGITS[0])[1:3], abs=1e-5)


def test_equally_likely_alternatives_come_lowest_id_first() -> None:
    sampler = Sampler(1, 6)
    sampler.admit(0, _request(logprobs=6))
    choice = sampler.choose(np.array([[0, 1, 0, 1, 0, 1]], np.float32), np.array([0]))
    assert choice.logprobs[0].top_ids == [1, 3, 5, 0, 2, 4]


def test_the_log_probabilities_of_named_ids_stand_in_place_of_the_likeliest() -> None:
    sampler = Sampler(2, 5)
    sampler.admit(0, _request(logprobs=2, logprob_token_ids=(4, 0)))
    sampler.admit(1, _request(logprobs=1))
    choice = sampler.choose(np.repeat(LOGITS, 2, axis=0), np.array([0, 1]))
    assert choice.logprobs[0].top_ids == [4, 0]
    assert choice.logprobs[0].top_logprobs == pytest.approx([_logs(LOGITS[0])[at] for at in (4, 0)], abs=1e-5)
    assert choice.logprobs[1].top_ids == [1]
    sampler.release(0)
    sampler.admit(0, _request(logprobs=1))
    assert sampler.choose(LOGITS, np.array([0])).logprobs[0].top_ids == [1]
