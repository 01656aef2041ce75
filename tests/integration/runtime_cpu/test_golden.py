"""The reference answers, token for token, through the real server."""

import asyncio

import pytest

from testkit.engines.tokens_client import Answer, TokensEngine
from testkit.models.golden import Golden, Item

pytestmark = pytest.mark.asyncio(loop_scope="session")

EOS = (2041, 2039)


def _assert_equal(answer: Answer, item: Item, tolerance: float) -> None:
    assert answer.tokens == item.output_ids
    assert answer.finish_reason == item.finish_reason
    assert answer.stop_token == (item.output_ids[-1] if item.finish_reason == "stop" else -1)
    assert answer.logprobs == pytest.approx(item.logprobs, abs=tolerance)


async def test_every_golden_item_is_exact_one_by_one(tiny: TokensEngine, golden: Golden) -> None:
    for item in golden.items:
        answer = await tiny.generate(item.prompt_ids, eos_token_ids=EOS, logprobs=5)
        _assert_equal(answer, item, golden.tolerance_logprob)


async def test_every_golden_item_is_exact_when_all_come_at_once(tiny: TokensEngine, golden: Golden) -> None:
    answers = await asyncio.gather(
        *(tiny.generate(item.prompt_ids, eos_token_ids=EOS, logprobs=0) for item in golden.items)
    )
    for answer, item in zip(answers, golden.items, strict=True):
        _assert_equal(answer, item, golden.tolerance_logprob)


async def test_tokens_travel_together_under_load(tiny: TokensEngine, golden: Golden) -> None:
    item = golden.items[0]
    answers = await asyncio.gather(
        *(tiny.generate(item.prompt_ids, ignore_eos=True, max_tokens=100) for _ in range(32))
    )
    assert all(len(answer.tokens) == 100 for answer in answers)
    assert sum(answer.messages for answer in answers) < 32 * 100
