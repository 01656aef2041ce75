import math

import pytest

from conch_contracts.messages.transcription import SpeechParameters
from conch_runtime_cpu.speech.tries import Verdict, compression_ratio, judge

SPOKEN, REPEATED = [1, 9, 4, 7, 2, 50], [3, 5] * 40


@pytest.mark.parametrize(
    ("ids", "avg_logprob", "no_speech", "fields", "verdict"),
    [
        (SPOKEN, -9.0, 1.0, {}, Verdict.ACCEPTED),
        (SPOKEN, -0.5, 0.0, {"logprob_threshold": -1.0}, Verdict.ACCEPTED),
        (SPOKEN, -1.5, 0.0, {"logprob_threshold": -1.0}, Verdict.REJECTED),
        (SPOKEN, -0.5, 0.0, {"compression_ratio_threshold": 2.4}, Verdict.ACCEPTED),
        (REPEATED, -0.5, 0.0, {"compression_ratio_threshold": 2.4}, Verdict.REJECTED),
        (SPOKEN, -1.5, 0.7, {"logprob_threshold": -1.0, "no_speech_threshold": 0.6}, Verdict.SILENT),
        (REPEATED, -1.5, 0.7, {"logprob_threshold": -1.0, "no_speech_threshold": 0.6}, Verdict.SILENT),
        (SPOKEN, -0.5, 0.7, {"logprob_threshold": -1.0, "no_speech_threshold": 0.6}, Verdict.ACCEPTED),
        (SPOKEN, -1.5, 0.5, {"logprob_threshold": -1.0, "no_speech_threshold": 0.6}, Verdict.REJECTED),
        (SPOKEN, -0.1, 0.7, {"no_speech_threshold": 0.6}, Verdict.SILENT),
        (SPOKEN, -1.5, math.nan, {"logprob_threshold": -1.0, "no_speech_threshold": 0.6}, Verdict.REJECTED),
    ],
)
def test_the_thresholds_decide(
    ids: list[int], avg_logprob: float, no_speech: float, fields: dict[str, float], verdict: Verdict
) -> None:
    assert judge(ids, avg_logprob, no_speech, 1937, SpeechParameters(max_tokens=10, **fields)) is verdict


@pytest.mark.parametrize(("vocabulary", "bytes_of_an_id"), [(200, 1), (1937, 2), (51_865, 2), (70_000, 3)])
def test_ids_are_compressed_as_the_bytes_that_they_need(vocabulary: int, bytes_of_an_id: int) -> None:
    one_id_takes = compression_ratio([1], vocabulary) * len(b"x\x9cc\x04\x00\x00\x02\x00\x02")
    assert one_id_takes == pytest.approx(bytes_of_an_id, rel=0.3)
