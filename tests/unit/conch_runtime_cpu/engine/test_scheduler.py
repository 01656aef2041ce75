"""The scheduler on a model that is easy to predict: the next token is the sum of all tokens so far, modulo 100."""

from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from conch_contracts.messages.generation import SamplingParameters
from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.scheduler import PREFILL_CHUNK, FinishReason, Scheduler, SequenceEvent
from conch_runtime_cpu.requests import GenerationRequest
from testkit.models.sum_model import VOCABULARY, SumModel


def _expected(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(sum(tokens) % VOCABULARY)
    return tokens[len(prompt) :]


def _request(prompt: list[int], max_tokens: int, **fields: object) -> GenerationRequest:
    sampling = SamplingParameters(**{"max_tokens": max_tokens, "temperature": 0.0, **fields})
    return GenerationRequest(np.array(prompt, np.int64), sampling, seed=0)


class Run:
    """Collects the events of a scheduler."""

    def __init__(self, slots: int) -> None:
        self.model = SumModel(slots)
        self.scheduler = Scheduler(self.model)
        self.tokens: dict[int, list[int]] = defaultdict(list)
        self.ended: dict[int, SequenceEvent] = {}
        self.prompts: dict[int, SequenceEvent] = {}

    def add(self, key: int, prompt: list[int], max_tokens: int, **fields: object) -> None:
        self.scheduler.add(RequestKey(key), _request(prompt, max_tokens, **fields))

    def step(self, *, decoding: bool = True) -> None:
        for event in self.scheduler.step(decoding=decoding):
            assert event.key not in self.ended, "an event after the end"
            if event.token is not None:
                self.tokens[event.key].append(event.token)
            if event.prompt is not None:
                self.prompts[event.key] = event
            if event.finish is not None or event.error is not None:
                self.ended[event.key] = event

    def drain(self) -> None:
        for _ in range(10_000):
            if self.scheduler.idle:
                return
            self.step()
        raise AssertionError("never idle")


def test_one_request_gets_its_tokens_and_its_reason() -> None:
    run = Run(2)
    run.add(1, [3, 4], 5)
    run.drain()
    assert run.tokens[1] == _expected([3, 4], 5)
    finish = run.ended[1].finish
    assert finish is not None
    assert (finish.reason, finish.stop_token) == (FinishReason.LENGTH, -1)


def test_many_requests_of_every_length_each_get_their_own_text() -> None:
    random = np.random.default_rng(0)
    run = Run(4)
    wanted = {}
    for key in range(40):
        prompt = random.integers(1, 90, random.integers(1, 400)).tolist()
        count = int(random.integers(1, 30))
        wanted[key] = _expected(prompt, count)
        run.add(key, prompt, count)
        for _ in range(int(random.integers(0, 4))):
            run.step()
    run.drain()
    assert dict(run.tokens) == wanted
    assert max(run.model.batches) <= 4


def test_a_new_request_joins_at_the_next_step() -> None:
    run = Run(4)
    run.add(1, [1], 50)
    run.step()
    run.step()
    run.add(2, [2], 50)
    run.step()
    assert run.tokens[2] == _expected([2], 1)
    assert len(run.tokens[1]) == 3


def test_requests_beyond_the_slots_wait_in_order() -> None:
    run = Run(1)
    for key in (1, 2, 3):
        run.add(key, [key], 2)
    run.drain()
    assert list(run.ended) == [1, 2, 3]


def test_a_long_prompt_does_not_stop_the_others() -> None:
    run = Run(2)
    run.add(1, [1], 50)
    run.step()
    run.add(2, [1] * (6 * PREFILL_CHUNK), 1)
    for produced in (2, 3):
        run.step()
        assert len(run.tokens[1]) == produced
        assert not run.tokens[2]
    run.step()
    assert run.tokens[2] == _expected([1] * (6 * PREFILL_CHUNK), 1)


@pytest.mark.parametrize("when", ["waiting", "prefilling", "running"])
def test_a_cancelled_request_ends_in_the_next_step_and_disturbs_nobody(when: str) -> None:
    run = Run(2)
    run.add(1, [5], 20)
    run.step()
    run.add(2, [1] * (5 * PREFILL_CHUNK if when == "prefilling" else 1), 20)
    if when != "waiting":
        run.step()
    run.add(3, [7], 10)
    run.scheduler.cancel(RequestKey(2))
    run.step()
    finish = run.ended[2].finish
    assert finish is not None
    assert finish.reason is FinishReason.CANCELLED
    run.drain()
    assert run.tokens[1] == _expected([5], 20)
    assert run.tokens[3] == _expected([7], 10)


def test_a_half_prefilled_prompt_survives_the_end_of_a_running_request() -> None:
    run = Run(3)
    run.add(1, [5], 3)
    run.add(2, [6], 9)
    run.step()
    prompt = [2] * (7 * PREFILL_CHUNK)
    run.add(3, prompt, 4)
    run.drain()
    assert run.tokens[3] == _expected(prompt, 4)
    assert run.tokens[2] == _expected([6], 9)


def test_cancelling_what_has_ended_does_nothing() -> None:
    run = Run(1)
    run.add(1, [1], 1)
    run.drain()
    run.scheduler.cancel(RequestKey(1))
    run.step()
    run.add(2, [1], 2)
    run.drain()
    assert run.tokens[2] == _expected([1], 2)


@pytest.mark.parametrize(
    ("fields", "count", "stop_token"),
    [
        ({"stop_token_ids": (12,)}, 3, 12),
        ({"eos_token_ids": (12,)}, 3, 12),
        ({"eos_token_ids": (12,), "ignore_eos": True}, 6, -1),
        ({"eos_token_ids": (12,), "stop_token_ids": (6,)}, 2, 6),
    ],
)
def test_an_ending_id_is_part_of_the_answer_and_named(fields: dict, count: int, stop_token: int) -> None:
    run = Run(1)
    run.add(1, [3], 6, **fields)  # 3, 6, 12, 24, 48, 96
    run.drain()
    assert run.tokens[1] == [3, 6, 12, 24, 48, 96][:count]
    finish = run.ended[1].finish
    assert finish is not None
    assert finish.stop_token == stop_token


def test_a_prompt_is_scored_across_chunks_without_making_a_token() -> None:
    run = Run(1)
    prompt = [1] * (PREFILL_CHUNK + 10)
    run.add(1, prompt, 0, prompt_logprobs=1)
    run.drain()
    assert 1 not in run.tokens
    rows = run.prompts[1].prompt
    assert rows is not None
    assert len(rows.chosen) == len(prompt) - 1
    assert rows.top_ids[:, 0].tolist() == [count % VOCABULARY for count in range(1, len(prompt))]


def test_without_decoding_only_prompts_make_progress() -> None:
    run = Run(2)
    run.add(1, [1], 5)
    run.step(decoding=False)
    run.step(decoding=False)
    run.add(2, [2], 5)
    run.step(decoding=False)
    assert [len(run.tokens[key]) for key in (1, 2)] == [1, 1]
    run.drain()
    assert run.tokens[1] == _expected([1], 5)


class _Spelled:
    """A mask that allows some tokens one after the other; the answer may end after the last `free` of them."""

    def __init__(self, *tokens: int, free: int = 0, dead_end: bool = False, fault: str = "") -> None:
        self._left = list(tokens)
        self._free = free
        self._dead_end = dead_end
        self.fault = fault

    def fill(self, allowed: NDArray[np.bool_]) -> None:
        allowed[:] = False
        allowed[self._left[:1]] = True

    def accept(self, token: int) -> None:
        assert token == self._left.pop(0)

    @property
    def complete(self) -> bool:
        return len(self._left) <= self._free and not self._dead_end

    @property
    def finished(self) -> bool:
        return not self._left and not self._dead_end


def test_parameters_that_leave_no_token_end_their_request_alone() -> None:
    run = Run(2)
    run.add(1, [1], 5)
    sampling = SamplingParameters(max_tokens=3, allowed_token_ids=(7,), bad_words=((7,),))
    run.scheduler.add(RequestKey(2), GenerationRequest(np.array([2]), sampling, 0))
    run.drain()
    assert run.ended[2].error == "INVALID: allowed_token_ids: the other parameters allow none of them"
    assert run.tokens[1] == _expected([1], 5)


@pytest.mark.parametrize(
    ("mask", "tokens", "reason", "error"),
    [
        (_Spelled(7, 8), [7, 8], FinishReason.STOP, None),
        (_Spelled(7, 8, 9), [7, 8, 9], FinishReason.STOP, None),
        (_Spelled(7, 8, 9, 10), [7, 8, 9], FinishReason.LENGTH, None),
        (_Spelled(7, 8, free=1), [7, 8], FinishReason.STOP, None),
        (
            _Spelled(7, dead_end=True),
            [7],
            None,
            "INVALID: grammar: the other parameters allow no token that the grammar allows",
        ),
        (_Spelled(dead_end=True, fault="too complex"), [], None, "INVALID: grammar: too complex"),
        (_Spelled(), [], FinishReason.STOP, None),
    ],
)
def test_a_mask_ends_its_request_alone(
    mask: _Spelled, tokens: list[int], reason: FinishReason | None, error: str | None
) -> None:
    run = Run(2)
    run.add(1, [1], 5)
    asked = _request([2], 3)
    run.scheduler.add(RequestKey(2), GenerationRequest(asked.prompt, asked.sampling, 0, mask))
    run.drain()
    ended = run.ended[2]
    assert run.tokens[2] == tokens
    assert (ended.finish and ended.finish.reason, ended.error) == (reason, error)
    assert run.tokens[1] == _expected([1], 5)
