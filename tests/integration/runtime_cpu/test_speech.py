"""Windows of sound through the real server: the reference answers id for id, many at once, and what is refused."""

import asyncio
import math
import time
from contextlib import aclosing
from dataclasses import replace

import pytest

from conch_contracts.dialects import speech as dialect
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineRejected
from conch_kit.triton.http_client import TritonHttp
from conch_kit.triton.tensors import add_input, add_raw, new_request
from conch_operator.probe.prober import NoAnswer, Target
from conch_operator.probe.triton_request import TritonProbeClient
from testkit.engines.speech_client import SpeechEngineClient, WindowAnswer, speech_request
from testkit.models.speech_golden import SpeechGolden, SpeechTokenizer, SpokenItem
from testkit.servers.triton import RunningTriton

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRIES = 5
"""A machine that stops for a moment is late; one try in time is the proof."""


def prompt_and_answer(ids: tuple[int, ...], answer: WindowAnswer) -> tuple[list[int], tuple[int, ...]]:
    """Cut the reference's ids where its answer begins, which ends with the ending id."""
    length = len(ids) - len(answer.tokens) - 1
    return list(ids[:length]), ids[length:-1]


async def test_every_file_is_transcribed_exactly(speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    for item in spoken.items:
        answer = await speech.transcribe(item.pcm, item.forced_prompt)
        assert prompt_and_answer(item.transcribed, answer) == (list(item.forced_prompt), answer.tokens)
        assert (answer.finish_reason, answer.temperature) == ("stop", 0.0)
        assert answer.times is None


async def test_log_probabilities_are_those_of_the_reference(speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    for item in spoken.items:
        answer = await speech.transcribe(item.pcm, item.forced_prompt)
        assert answer.tokens == item.forced[:-1]
        assert answer.logprobs == pytest.approx(item.forced_logprobs[:-1], abs=spoken.tolerance_logprob)
        mean = sum(item.forced_logprobs) / len(item.forced_logprobs)
        assert answer.avg_logprob == pytest.approx(mean, abs=spoken.tolerance_logprob)


async def test_the_language_is_found(speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer) -> None:
    for item in spoken.items:
        if not item.segments:
            continue
        answer = await speech.transcribe(item.pcm, words.prompt(None))
        assert words.special(dialect.language_token(item.language)) == [answer.language_id]
        assert answer.tokens == item.forced[:-1]
        assert answer.no_speech_prob is not None
        assert 0 <= answer.no_speech_prob < 0.5


async def test_the_language_is_looked_for_among_those_that_are_asked_for(
    speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer
) -> None:
    languages = words.special("<|de|>", "<|fr|>")
    answer = await speech.transcribe(spoken.items[0].pcm, words.prompt(None), languages=languages)
    assert answer.language_id in languages


async def test_speech_is_translated(speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer) -> None:
    items = [item for item in spoken.items if item.translated is not None]
    assert items
    for item in items:
        answer = await speech.transcribe(item.pcm, words.prompt(item.language, dialect.TRANSLATE))
        assert item.translated == (*words.prompt(item.language, dialect.TRANSLATE), *answer.tokens, item.forced[-1])


async def test_segments_are_those_of_the_reference(
    speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer
) -> None:
    for item in spoken.items:
        answer = await speech.transcribe(item.pcm, words.prompt(item.language, times=True))
        assert (*words.prompt(item.language, times=True), *answer.tokens, item.forced[-1]) == item.timed
        found = words.segments(answer.tokens)
        assert [text for _, _, text in found] == [text for _, _, text in item.segments]
        for (start, end, _), (expected_start, expected_end, _) in zip(found, item.segments, strict=True):
            assert (start, end) == pytest.approx((expected_start, expected_end))


async def test_where_nobody_speaks_an_engine_says_so(
    speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer
) -> None:
    (item,) = (item for item in spoken.items if not item.segments)
    answer = await speech.transcribe(item.pcm, words.prompt("en", times=True))
    assert answer.no_speech_prob is not None
    assert answer.no_speech_prob > 0.9
    assert words.segments(answer.tokens) == ()


async def test_many_windows_at_once_come_out_as_one_at_a_time(
    speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer
) -> None:
    async def heard(item: SpokenItem, *, times: bool) -> WindowAnswer:
        return await speech.transcribe(item.pcm, words.prompt(None, times=times), word_times=True)

    asked = [(item, times) for _ in range(3) for item in spoken.items for times in (False, True)]
    alone = [await heard(item, times=times) for item, times in asked[: 2 * len(spoken.items)]] * 3
    together = await asyncio.gather(*(heard(item, times=times) for item, times in asked))
    for one, many in zip(alone, together, strict=True):
        assert (many.tokens, many.language_id) == (one.tokens, one.language_id)
        assert many.times == pytest.approx(one.times, abs=dialect.SECONDS_PER_TIME_ID * 2)
        assert many.logprobs == pytest.approx(one.logprobs, abs=1e-3)


async def test_times_of_words_never_go_back_and_stay_in_the_window(
    speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer
) -> None:
    for item in spoken.items:
        for times in (False, True) if item.segments else ():
            answer = await speech.transcribe(item.pcm, words.prompt(item.language, times=times), word_times=True)
            assert answer.times is not None
            assert len(answer.times) == len(answer.tokens) + 1
            assert list(answer.times) == sorted(answer.times)
            assert answer.times[0] >= 0
            assert 0 < answer.times[-1] <= len(item.pcm) / 2 / dialect.SAMPLE_RATE + dialect.SECONDS_PER_TIME_ID


async def test_the_answer_is_no_longer_than_was_asked(speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    item = spoken.items[0]
    answer = await speech.transcribe(item.pcm, item.forced_prompt, max_tokens=2)
    assert (answer.tokens, answer.finish_reason) == (item.forced[:2], "length")


async def test_a_try_that_is_rejected_is_followed_by_the_next_temperature(
    speech: SpeechEngineClient, spoken: SpeechGolden
) -> None:
    item = spoken.items[0]
    asked = {"temperatures": [0, 0.2, 0.4], "seed": 1}
    accepted = await speech.transcribe(item.pcm, item.forced_prompt, logprob_threshold=-1.0, **asked)
    assert (accepted.temperature, accepted.tokens) == (0.0, item.forced[:-1])
    rejected = await speech.transcribe(item.pcm, item.forced_prompt, logprob_threshold=1.0, **asked)
    assert rejected.temperature == pytest.approx(0.4)
    again = await speech.transcribe(item.pcm, item.forced_prompt, logprob_threshold=1.0, **asked)
    assert again.tokens == rejected.tokens


async def test_a_window_in_which_nobody_speaks_has_no_ids(speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    item = spoken.items[0]
    answer = await speech.transcribe(
        item.pcm, item.forced_prompt, no_speech_threshold=0.0, logprob_threshold=1.0, word_times=True
    )
    assert (answer.tokens, answer.logprobs, answer.finish_reason, answer.times) == ((), (), "stop", (0.0,))
    assert answer.avg_logprob is not None
    assert math.isfinite(answer.avg_logprob)


async def test_who_waits_gets_signs_of_life(paced_speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    item = spoken.items[0]
    request = speech_request(paced_speech.model, item.pcm, item.forced_prompt, max_tokens=4)
    silent = 0
    async with aclosing(paced_speech.messages(request)) as running:
        assert (await anext(running)).has(dialect.LANGUAGE_ID)
        waiting = asyncio.create_task(paced_speech.transcribe(item.pcm, item.forced_prompt, max_tokens=1))
        async for outputs in running:
            silent += not outputs.has(dialect.FINISH_REASON)
        waited = await waiting
    assert waited.tokens == item.forced[:1]
    assert silent >= 2  # three seconds until the fourth id
    assert waited.signs_of_life >= 2


async def test_a_window_that_is_cancelled_frees_its_place_within_a_second(
    paced_speech: SpeechEngineClient, spoken: SpeechGolden
) -> None:
    item = spoken.items[0]
    request = speech_request(paced_speech.model, item.pcm, item.forced_prompt)
    took = []
    for _ in range(TRIES):
        async with aclosing(paced_speech.messages(request)) as running:
            async for outputs in running:
                if outputs.has(dialect.LANGUAGE_ID):
                    break
            waiting = asyncio.create_task(paced_speech.transcribe(item.pcm, item.forced_prompt, max_tokens=1))
            await asyncio.sleep(0.1)
            assert not waiting.done()  # the one place is taken
        left = time.monotonic()
        assert (await waiting).tokens == item.forced[:1]
        took.append(time.monotonic() - left)
        if took[-1] < 1:
            return
    pytest.fail(f"No place was free within a second: {took}")


BAD_PARAMETERS = [
    ({"nonsense": 1}, "nonsense"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"temperatures": []}, "temperatures"),
    ({"temperatures": [-1]}, "temperatures"),
    ({"top_p": 0}, "top_p"),
    ({"languages": [1]}, "languages"),
    ({"no_speech_threshold": "much"}, "no_speech_threshold"),
]


@pytest.mark.parametrize(("parameters", "name"), BAD_PARAMETERS)
async def test_a_bad_parameter_is_refused_by_name(
    speech: SpeechEngineClient, spoken: SpeechGolden, parameters: dict[str, object], name: str
) -> None:
    item = spoken.items[0]
    with pytest.raises(EngineRejected) as refused:
        await speech.transcribe(item.pcm, item.forced_prompt, **parameters)
    assert refused.value.message.startswith(f"INVALID: {name}: ")


@pytest.mark.parametrize("prompt", [[], [1, 2], [10_000_000], [-1], [-2, 5]])
async def test_a_bad_prompt_is_refused_by_name(
    speech: SpeechEngineClient, spoken: SpeechGolden, words: SpeechTokenizer, prompt: list[int]
) -> None:
    for ids in (prompt, [*words.prompt("en"), *prompt]) if len(prompt) == 1 else (prompt,):
        with pytest.raises(EngineRejected) as refused:
            await speech.transcribe(spoken.items[0].pcm, ids)
        assert refused.value.message.startswith("INVALID: prompt_ids: ")


@pytest.mark.parametrize("samples", [0, dialect.WINDOW_SAMPLES + 1])
async def test_too_little_or_too_much_sound_is_refused_by_name(
    speech: SpeechEngineClient, spoken: SpeechGolden, samples: int
) -> None:
    with pytest.raises(EngineRejected) as refused:
        await speech.transcribe(bytes(2 * samples), spoken.items[0].forced_prompt)
    assert refused.value.message.startswith("INVALID: pcm: ")


async def test_sound_of_another_type_is_refused(speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    request = new_request(speech.model, "")
    add_raw(request, dialect.PCM, "FP32", [16], bytes(64))
    add_input(request, dialect.PROMPT_IDS, "INT32", [4], list(spoken.items[0].forced_prompt))
    add_input(request, dialect.PARAMETERS, "BYTES", [1], [b'{"max_tokens": 1}'])
    with pytest.raises(EngineRejected, match="pcm"):
        async for _ in speech.messages(request):
            pass


async def test_a_whole_window_is_taken(speech: SpeechEngineClient, spoken: SpeechGolden) -> None:
    item = spoken.items[0]
    padded = item.pcm + bytes(2 * dialect.WINDOW_SAMPLES - len(item.pcm))
    answer = await speech.transcribe(padded, item.forced_prompt)
    assert answer.tokens == item.forced[:-1]


async def test_the_operator_sees_that_an_engine_answers(
    server: RunningTriton, client: TritonClient, words: SpeechTokenizer
) -> None:
    target = Target(EngineAddress(server.grpc), "speech", Dialect.SPEECH, prompt_ids=tuple(words.prompt("en")))
    async with TritonHttp() as http:
        await TritonProbeClient(client, http).probe(target)
        with pytest.raises(NoAnswer, match="prompt_ids: must hold the id"):
            await TritonProbeClient(client, http).probe(replace(target, prompt_ids=()))
