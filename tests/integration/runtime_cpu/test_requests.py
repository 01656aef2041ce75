"""Cancellation, sampling parameters and refusals, through the real server."""

import asyncio
import time

import pytest

from conch_kit.triton.errors import EngineRejected
from testkit.engines.tokens_client import TokensEngine
from testkit.models.golden import Golden

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRIES = 10
"""A machine that stops for a moment delays a stream and joins its tokens; one stream without that is the proof."""
SAMPLED = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 40, "ignore_eos": True}


async def test_a_cancelled_request_frees_its_place_while_others_go_on(paced: TokensEngine, golden: Golden) -> None:
    prompt = golden.items[0].prompt_ids
    firsts = [asyncio.Event() for _ in range(16)]
    running = [asyncio.create_task(paced.generate(prompt, first, ignore_eos=True, max_tokens=100)) for first in firsts]
    await asyncio.gather(*(first.wait() for first in firsts))
    queued = asyncio.create_task(paced.generate(prompt, ignore_eos=True, max_tokens=1))
    await asyncio.sleep(0.1)
    assert not queued.done()  # all 16 places are taken

    running.pop().cancel()
    assert len((await queued).tokens) == 1
    assert not any(task.done() for task in running)

    answers = await asyncio.gather(*running)
    assert all(len(answer.tokens) == 100 for answer in answers)


async def test_a_paced_stream_keeps_its_speed(paced: TokensEngine, golden: Golden) -> None:
    for _ in range(TRIES):
        started = time.monotonic()
        answer = await paced.generate(golden.items[0].prompt_ids, ignore_eos=True, max_tokens=26)
        took_s = time.monotonic() - started
        assert len(answer.tokens) == 26
        assert took_s > 0.9  # 25 tokens a second
        if took_s < 3 and answer.messages >= 20:
            return
    pytest.fail("No stream came token by token at its speed.")


async def test_a_seed_gives_the_same_text_alone_and_in_a_full_batch(tiny: TokensEngine, golden: Golden) -> None:
    prompt = golden.items[0].prompt_ids
    alone = await tiny.generate(prompt, seed=7, **SAMPLED)
    others = [tiny.generate(item.prompt_ids, seed=index, **SAMPLED) for index, item in enumerate(golden.items)]
    crowded, *_ = await asyncio.gather(tiny.generate(prompt, seed=7, **SAMPLED), *others)
    different = await tiny.generate(prompt, seed=8, **SAMPLED)
    assert crowded.tokens == alone.tokens
    assert different.tokens != alone.tokens


async def test_requests_without_a_seed_differ(tiny: TokensEngine, golden: Golden) -> None:
    prompt = golden.items[0].prompt_ids
    answers = await asyncio.gather(*(tiny.generate(prompt, **{**SAMPLED, "temperature": 2.0}) for _ in range(2)))
    assert answers[0].tokens != answers[1].tokens


async def test_a_stop_id_ends_the_answer_and_is_named(tiny: TokensEngine, golden: Golden) -> None:
    item = golden.items[0]
    stop = item.output_ids[3]
    answer = await tiny.generate(item.prompt_ids, stop_token_ids=(stop,))
    assert answer.tokens == item.output_ids[:4]
    assert (answer.finish_reason, answer.stop_token) == ("stop", stop)


async def test_min_tokens_keeps_the_answer_from_ending(tiny: TokensEngine, golden: Golden) -> None:
    item = golden.items[0]
    eos = item.output_ids[-1]
    answer = await tiny.generate(item.prompt_ids, eos_token_ids=(eos,), min_tokens=len(item.output_ids) + 5)
    assert len(answer.tokens) >= len(item.output_ids) + 5
    assert eos not in answer.tokens[: len(item.output_ids) + 4]


async def test_a_bias_forces_a_token(tiny: TokensEngine, golden: Golden) -> None:
    answer = await tiny.generate(golden.items[0].prompt_ids, logit_bias={77: 100.0}, max_tokens=3)
    assert answer.tokens == [77, 77, 77]
    assert answer.finish_reason == "length"


async def test_a_bad_word_of_several_tokens_does_not_appear(tiny: TokensEngine, golden: Golden) -> None:
    item = golden.items[0]
    first, second = item.output_ids[2:4]
    answer = await tiny.generate(item.prompt_ids, bad_words=((first, second),), max_tokens=20)
    assert answer.tokens[:3] == item.output_ids[:3]
    assert (first, second) not in zip(answer.tokens, answer.tokens[1:], strict=False)


async def test_only_allowed_ids_appear(tiny: TokensEngine, golden: Golden) -> None:
    answer = await tiny.generate(golden.items[0].prompt_ids, allowed_token_ids=(77, 78, 79), max_tokens=12)
    assert len(answer.tokens) == 12
    assert set(answer.tokens) <= {77, 78, 79}


async def test_named_ids_have_log_probabilities_however_unlikely(tiny: TokensEngine, golden: Golden) -> None:
    prompt = golden.items[0].prompt_ids
    likeliest = await tiny.generate(prompt, max_tokens=1, logprobs=5)
    named = tuple(reversed(likeliest.top_ids[0]))
    answer = await tiny.generate(prompt, max_tokens=2, logprobs=0, logprob_token_ids=named)
    assert [tuple(row) for row in answer.top_ids] == [named, named]
    assert answer.top_logprobs[0] == pytest.approx(tuple(reversed(likeliest.top_logprobs[0])), abs=1e-4)


async def test_log_probabilities_follow_the_temperature_when_asked(tiny: TokensEngine, golden: Golden) -> None:
    asked = {"max_tokens": 1, "logprobs": 2, "temperature": 0.5, "seed": 1}
    raw = await tiny.generate(golden.items[0].prompt_ids, **asked)
    scaled = await tiny.generate(golden.items[0].prompt_ids, temp_scaled_logprobs=True, **asked)
    (first, second), (scaled_first, scaled_second) = raw.top_logprobs[0], scaled.top_logprobs[0]
    assert scaled_first - scaled_second == pytest.approx((first - second) / 0.5, abs=0.01)


async def test_the_five_most_likely_first_tokens_are_those_of_the_reference(tiny: TokensEngine, golden: Golden) -> None:
    answer = await tiny.generate(golden.items[0].prompt_ids, max_tokens=1, logprobs=5)
    assert answer.top_ids[0] == (931, 775, 825, 1261, 1163)
    assert answer.top_logprobs[0] == pytest.approx((-0.01252, -4.56257, -7.15798, -9.17227, -9.39336), abs=0.01)


async def test_a_prompt_can_be_scored_without_an_answer(tiny: TokensEngine, golden: Golden) -> None:
    item = golden.items[0]
    whole = [*item.prompt_ids, *item.output_ids]
    answer = await tiny.generate(whole, max_tokens=0, prompt_logprobs=1)
    assert answer.tokens == []
    assert answer.prompt_logprobs is not None
    assert answer.prompt_top_ids is not None
    assert answer.prompt_logprobs[len(item.prompt_ids) :] == pytest.approx(item.logprobs, abs=golden.tolerance_logprob)
    assert list(answer.prompt_top_ids[len(item.prompt_ids) :]) == item.output_ids
    # The reference took the likeliest id each time; of the prompt itself nobody chose one.
    assert set(answer.prompt_ranks[len(item.prompt_ids) :]) == {1}
    assert max(answer.prompt_ranks) > 1


async def test_max_tokens_is_cut_to_the_context(tiny: TokensEngine) -> None:
    answer = await tiny.generate([10] * 1000, ignore_eos=True, max_tokens=500)
    assert len(answer.tokens) == 24
    assert answer.finish_reason == "length"


@pytest.mark.parametrize(
    ("prompt", "parameters", "named"),
    [
        ([], {}, "input_ids: the prompt is empty"),
        ([1, 2048], {}, "input_ids: every id must be from 0 to 2047"),
        ([1] * 1024, {}, "input_ids: 1024 tokens leave no room in the context of 1024"),
        ([1], {"temperature": -1.0}, "temperature"),
        ([1], {"top_p": 0.0}, "top_p"),
        ([1], {"logit_bias": {2048: 1.0}}, "logit_bias"),
        ([1], {"bad_words": ((),)}, "bad_words"),
        ([1], {"max_tokens": "many"}, "max_tokens"),
        ([1], {"beams": 4}, "beams"),
    ],
)
async def test_a_request_that_cannot_be_obeyed_is_refused(
    tiny: TokensEngine, prompt: list[int], parameters: dict[str, object], named: str
) -> None:
    with pytest.raises(EngineRejected) as refused:
        await tiny.generate(prompt, **parameters)
    assert refused.value.message.startswith(f"INVALID: {named}")


async def test_cancelling_again_and_again_does_no_harm(tiny: TokensEngine, golden: Golden) -> None:
    prompt = golden.items[0].prompt_ids
    for pause_s in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02) * 5:
        tasks = [
            asyncio.create_task(tiny.generate(prompt, ignore_eos=True, max_tokens=length)) for length in (1, 5, 30, 300)
        ]
        await asyncio.sleep(pause_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    answer = await tiny.generate(prompt, eos_token_ids=(2041,))
    assert answer.tokens == golden.items[0].output_ids
