import json

import pytest

from conch_contracts.messages.transcription import SpeechUsage
from conch_speech_worker.transcript.stream_frames import DONE, SegmentDeltas, frames_for
from testkit.builders.transcriptions import VOCABULARY, transcribe_request

USAGE = SpeechUsage(audio_s=1.6, prompt_tokens=3, completion_tokens=2, audio_tokens=80)


@pytest.mark.parametrize(
    ("texts", "deltas"),
    [
        ([" a", " b "], ["a", " b"]),
        (["  ", " a ", "", "b "], ["", "a", "", " b"]),
        ([" ", " "], ["", ""]),
    ],
)
def test_deltas_join_to_the_stripped_text(texts, deltas):
    growing = SegmentDeltas()
    assert [growing.of(text) for text in texts] == deltas
    assert growing.text == "".join(deltas) == "".join(texts).strip()


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        (
            "openai",
            {
                "type": "tokens",
                "input_tokens": 83,
                "output_tokens": 2,
                "total_tokens": 85,
                "input_token_details": {"text_tokens": 3, "audio_tokens": 80},
            },
        ),
        ("vllm", {"prompt_tokens": 83, "completion_tokens": 2, "total_tokens": 85}),
    ],
)
def test_the_end_of_a_stream_tells_the_tokens_with_those_of_the_sound(events, counts):
    request = transcribe_request(stream=events, include_usage=True)
    *_, last, done, _ = frames_for(request, VOCABULARY).ending(USAGE).split(b"\n\n")
    assert (json.loads(last.removeprefix(b"data: "))["usage"], done + b"\n\n") == (counts, DONE)
