import json

import numpy as np
import pytest

from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary
from conch_runtime_cpu.speech.window_requests import WindowRequest, parse_window

START, EN, DE, TASK, NO_TIMES, PREVIOUS = 51, 52, 53, 55, 57, 58
VOCABULARY = SpeechVocabulary(
    size=100,
    start_id=START,
    ending_ids=(50,),
    languages=frozenset({EN, DE}),
    no_times_id=NO_TIMES,
    no_speech_id=56,
    alignment_heads=((0, 0),),
)
ENGLISH_ONLY = SpeechVocabulary(100, START, (50,), frozenset(), NO_TIMES, None)
CONTEXT = 20


def _parse(
    prompt: list[int], samples: int = 100, vocabulary: SpeechVocabulary = VOCABULARY, **fields: object
) -> WindowRequest:
    parameters = json.dumps({"max_tokens": 5, **fields}).encode()
    return parse_window(np.zeros(samples, np.int16), np.array(prompt, np.int32), parameters, vocabulary, CONTEXT)


@pytest.mark.parametrize(
    ("prompt", "start", "timed", "finds"),
    [
        ([START, EN, TASK, NO_TIMES], 0, False, False),
        ([START, EN, TASK], 0, True, False),
        ([START, -1, TASK], 0, True, True),
        ([PREVIOUS, 1, 2, START, -1, TASK, NO_TIMES], 3, False, True),
        ([PREVIOUS, NO_TIMES, START, EN, TASK], 2, True, False),
        ([START], 0, True, False),
    ],
)
def test_a_prompt_says_where_it_starts_and_whether_times_are_wanted(
    prompt: list[int], start: int, timed: bool, finds: bool
) -> None:
    request = _parse(prompt)
    assert (request.start, request.timed, request.finds_language) == (start, timed, finds)


def test_an_answer_ends_with_the_context() -> None:
    assert _parse([START], max_tokens=500).parameters.max_tokens == CONTEXT - 1
    assert _parse([START], max_tokens=3).parameters.max_tokens == 3


def test_each_try_draws_other_ids_and_a_seed_the_same_ones_again() -> None:
    request = _parse([START], seed=-1, temperatures=[0, 0.5], top_k=3)
    first, second = (request.try_at(number, request.prompt) for number in (0, 1))
    assert (first.sampling.temperature, second.sampling.temperature) == (0, 0.5)
    assert (first.seed, second.seed) == (2**64 - 1, 0)
    assert second.sampling.top_k == 3
    assert _parse([START]).seed != _parse([START]).seed


@pytest.mark.parametrize(
    ("prompt", "fields", "name"),
    [
        ([], {}, "prompt_ids"),
        ([EN, TASK], {}, "prompt_ids"),
        ([START, START], {}, "prompt_ids"),
        ([START, 100], {}, "prompt_ids"),
        ([START, EN, -1], {}, "prompt_ids"),
        ([-1, START, EN], {}, "prompt_ids"),
        ([START, -2], {}, "prompt_ids"),
        ([1] * (CONTEXT - 1) + [START], {}, "prompt_ids"),
        ([START], {"samples": 0}, "pcm"),
        ([START], {"samples": 480_001}, "pcm"),
        ([START], {"max_tokens": 0}, "max_tokens"),
        ([START], {"unknown": 1}, "unknown"),
        ([START], {"temperatures": []}, "temperatures"),
        ([START], {"temperatures": [0.0] * 17}, "temperatures"),
        ([START], {"temperatures": [-0.1]}, "temperatures"),
        ([START], {"temperatures": ["hot"]}, "temperatures.0"),
        ([START], {"languages": [TASK]}, "languages"),
        ([START], {"top_p": 0}, "top_p"),
        ([START], {"min_p": 2}, "min_p"),
        ([START], {"repetition_penalty": 0}, "repetition_penalty"),
        ([START], {"vocabulary": ENGLISH_ONLY, "word_times": True}, "word_times"),
        ([START, -1], {"vocabulary": ENGLISH_ONLY}, "prompt_ids"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(prompt: list[int], fields: dict[str, object], name: str) -> None:
    with pytest.raises(UnservableRequest) as refused:
        _parse(prompt, **fields)
    assert str(refused.value).startswith(f"{name}: ")


def test_parameters_that_are_no_json_are_refused() -> None:
    with pytest.raises(UnservableRequest, match=r"^parameters: "):
        parse_window(np.zeros(1, np.int16), np.array([START], np.int32), b"{", VOCABULARY, CONTEXT)
