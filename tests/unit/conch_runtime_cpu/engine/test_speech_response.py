import math

import numpy as np

from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.scheduler import FinishReason
from conch_runtime_cpu.engine.speech_response import SpeechResponse, pack_speech
from conch_runtime_cpu.engine.speech_scheduler import HeardSound, SpokenAnswer, WindowEvent

KEY = RequestKey(1)


def test_a_sign_of_life_has_no_ids() -> None:
    response = SpeechResponse()
    ((name, value),) = pack_speech(response)
    assert (name, value.dtype, value.shape) == ("token_ids", np.int32, (0,))
    assert not response.final


def test_what_was_heard_is_told_once_it_is_known() -> None:
    response = SpeechResponse()
    response.add(WindowEvent(KEY, heard=HeardSound(7, math.nan)))
    tensors = dict(pack_speech(response))
    assert tensors["language_id"].tolist() == [7]
    assert tensors["language_id"].dtype == np.int32
    assert np.isnan(tensors["no_speech_prob"]).all()
    assert tensors["token_ids"].shape == (0,)
    assert not response.final


def test_an_answer_may_come_with_what_was_heard() -> None:
    response = SpeechResponse()
    times = np.array([0.0, 0.5, 1.0], np.float32)
    answer = SpokenAnswer(FinishReason.STOP, (3, 4), (-0.1, -0.2), -0.3, 0.5, times)
    response.add(WindowEvent(KEY, heard=HeardSound(7, 0.25)))
    response.add(WindowEvent(KEY, answer=answer))
    tensors = dict(pack_speech(response))
    assert response.final
    assert {name: value.tolist() for name, value in tensors.items() if name in ("token_ids", "finish_reason")} == {
        "token_ids": [3, 4],
        "finish_reason": [b"stop"],
    }
    numbers = {"no_speech_prob", "logprobs", "avg_logprob", "temperature", "token_times"}
    assert {name for name, value in tensors.items() if value.dtype == np.float32} == numbers
    assert tensors["token_times"].shape == (3,)


def test_an_error_is_the_end() -> None:
    response = SpeechResponse()
    response.add(WindowEvent(KEY, error="no"))
    assert response.final
