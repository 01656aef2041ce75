"""How long a message of each dialect's engines may be: enough for all that was asked for, and little more."""

from typing import Any

import pytest

from conch_kit.triton.message_limits import MAX_CONTROL_BYTES, MAX_MESSAGE_BYTES
from conch_llm_worker.dialects import answer_sizes
from conch_llm_worker.dialects.answer_sizes import FREE_BYTES, FREE_TEXT_BYTES
from testkit.builders.generate_requests import sampling
from testkit.engines.engine_messages import tokens_response

LONG = 131_072


def test_few_tokens_bring_a_small_message() -> None:
    few = sampling(max_tokens=4)
    assert answer_sizes.of_tokens(LONG, few) < FREE_BYTES + 100
    assert answer_sizes.of_buffer(100, few) < FREE_BYTES + 2000
    assert answer_sizes.of_text("Hello", few) < FREE_TEXT_BYTES + 2000
    assert answer_sizes.of_json("Hello", few) < FREE_TEXT_BYTES + 4000


def test_all_of_an_answer_may_come_in_one_message() -> None:
    asked = sampling(max_tokens=LONG)
    assert len(tokens_response(range(LONG), "length").SerializeToString()) < answer_sizes.of_tokens(1, asked)


@pytest.mark.parametrize("alternatives", [0, 20])
def test_the_log_probabilities_of_a_whole_prompt_come_in_one_message(alternatives: int) -> None:
    asked = sampling(max_tokens=1, prompt_logprobs=alternatives)
    numbers = LONG * 2 * (1 + alternatives) * 4
    assert numbers < answer_sizes.of_tokens(LONG, asked) <= MAX_MESSAGE_BYTES
    assert answer_sizes.of_tokens(1000, asked) < 2 * MAX_CONTROL_BYTES


def test_the_log_probabilities_of_thousands_of_tokens_come_in_one_message() -> None:
    asked = sampling(max_tokens=5000, logprobs=20)
    assert answer_sizes.of_tokens(1, asked) > 5000 * 2 * 21 * 4
    assert answer_sizes.of_tokens(1, sampling(max_tokens=LONG, logprobs=20)) < 4 * MAX_CONTROL_BYTES


def test_each_beam_has_its_own_room() -> None:
    asked = sampling(max_tokens=1000, beams=8)
    assert answer_sizes.of_buffer(LONG, asked) > 8 * (LONG + 1000) * 8
    assert answer_sizes.of_buffer(LONG, sampling(max_tokens=LONG, beams=100)) == MAX_MESSAGE_BYTES


def test_a_text_may_begin_with_its_prompt() -> None:
    assert answer_sizes.of_text("ä" * LONG, sampling(max_tokens=1)) > FREE_TEXT_BYTES + 2 * LONG
    assert answer_sizes.of_text("", sampling(max_tokens=LONG)) <= FREE_TEXT_BYTES + MAX_CONTROL_BYTES


def test_json_is_bounded_by_what_it_takes_once_it_is_parsed() -> None:
    asked = sampling(max_tokens=LONG, logprobs=20)
    assert answer_sizes.of_json("", asked) == 4 * MAX_CONTROL_BYTES


@pytest.mark.parametrize(
    "asked", [{"logprob_token_ids": tuple(range(20))}, {"logprobs": 20, "logprob_token_ids": (1,)}]
)
def test_ids_that_are_named_have_room_as_the_likeliest_have(asked: dict[str, Any]) -> None:
    assert answer_sizes.of_tokens(1, sampling(max_tokens=1000, **asked)) > FREE_BYTES + 1000 * 2 * 21 * 4


def test_nothing_is_longer_than_any_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer_sizes.of_tokens(10 * LONG, sampling(max_tokens=1, prompt_logprobs=20)) == MAX_MESSAGE_BYTES
    monkeypatch.setattr(answer_sizes, "MAX_MESSAGE_BYTES", FREE_TEXT_BYTES + 1000)
    assert answer_sizes.of_text("a" * LONG, sampling(max_tokens=1)) == FREE_TEXT_BYTES + 1000
