"""Transcriptions and translations with OpenAI's SDK, on the example model, against the reference's texts."""

import io
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
from openai import OpenAI
from openai.types.audio import TranscriptionStreamEvent
from pydantic import TypeAdapter

from testkit.processes.conch_up import ROOT

FOLDER = ROOT / "examples" / "tiny-whisper"
ITEMS: list[dict[str, Any]] = json.loads((FOLDER / "golden.json").read_text())["items"]
MODEL = "tiny-whisper"


def name_of(item: dict[str, Any]) -> str:
    return Path(item["file"]).stem


@pytest.fixture(params=ITEMS, ids=name_of)
def item(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_speech_is_written_as_by_the_reference_in_every_form(client: OpenAI, item: dict[str, Any]) -> None:
    file = FOLDER / item["file"]
    asked = {"model": MODEL, "language": item["language"], "file": file}
    text = " ".join(segment["text"] for segment in item["segments"])
    assert client.audio.transcriptions.create(**asked).text == text
    assert client.audio.transcriptions.create(**asked, response_format="text").strip() == text
    for form in ("srt", "vtt"):
        cues = client.audio.transcriptions.create(**asked, response_format=form)
        assert all(segment["text"] in cues for segment in item["segments"])
    verbose = client.audio.transcriptions.create(
        **asked, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert verbose.text == text
    assert abs(float(verbose.duration) - item["seconds"]) < 0.01
    assert verbose.language == {"en": "english", "zh": "chinese"}[item["language"]]
    assert [(one.start, one.end) for one in verbose.segments or ()] == [
        (one["start"], min(one["end"], round(item["seconds"], 3))) for one in item["segments"]
    ]
    times = [time for word in verbose.words or () for time in (word.start, word.end)]
    assert times == sorted(times)
    assert bool(times) == bool(text)


def test_the_language_is_found(client: OpenAI, item: dict[str, Any]) -> None:
    if not item["segments"]:
        return  # nobody speaks one
    found = client.audio.transcriptions.create(model=MODEL, file=FOLDER / item["file"], response_format="verbose_json")
    assert found.language == {"en": "english", "zh": "chinese"}[item["language"]]


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # by the SDK, not by the API
def test_speech_is_translated(client: OpenAI) -> None:
    for item in ITEMS:
        if "translate" in item:
            answer = client.audio.translations.create(model=MODEL, file=FOLDER / item["file"])
            assert answer.text == item["translate"]["text"]


def test_deltas_join_to_the_text(client: OpenAI) -> None:
    with (FOLDER / ITEMS[0]["file"]).open("rb") as file:
        events = list(client.audio.transcriptions.create(model=MODEL, file=file, stream=True, include=["logprobs"]))
    for event in events:
        TypeAdapter(TranscriptionStreamEvent).validate_python(event.to_dict())
    deltas = [event for event in events if event.type == "transcript.text.delta"]
    (done,) = (event for event in events if event.type == "transcript.text.done")
    assert "".join(delta.delta for delta in deltas) == done.text == ITEMS[0]["transcribe"]["text"]
    assert done.usage is not None
    assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens
    assert [entry.logprob for entry in done.logprobs or ()] == pytest.approx([0] * len(done.logprobs or ()), abs=0.1)


def test_silence_is_no_text(client: OpenAI) -> None:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setparams((1, 2, 16_000, 0, "NONE", ""))
        sound.writeframes(bytes(2 * 16_000))
    file = ("silence.wav", buffer.getvalue())
    answer = client.audio.transcriptions.create(model=MODEL, file=file, response_format="verbose_json")
    assert (answer.text, answer.segments) == ("", [])


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"file": ("a.wav", b"")}, "file"),
        ({"file": ("a.mp3", b"this is a text and no sound")}, "file"),
        ({"language": "hh"}, "language"),
        ({"temperature": 1.5}, "temperature"),
        ({"response_format": "diarized_json"}, "response_format"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities"),
    ],
)
def test_what_is_wrong_is_a_400_that_names_the_field(client: OpenAI, changes: dict[str, Any], param: str) -> None:
    asked = {"model": MODEL, "file": FOLDER / ITEMS[0]["file"], **changes}
    with pytest.raises(openai.BadRequestError) as refusal:
        client.audio.transcriptions.create(**asked)
    assert refusal.value.param == param


def test_a_model_of_another_kind_is_a_400(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.audio.transcriptions.create(model="tiny-chat", file=FOLDER / ITEMS[0]["file"])
    assert (refusal.value.param, refusal.value.code) == ("model", "unsupported_model")


def test_a_body_of_json_is_a_415(client: OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as refusal:
        client.post("/audio/transcriptions", body={"model": MODEL}, cast_to=object)
    assert refusal.value.status_code == 415


def test_a_long_file_with_several_utterances_in_a_window_loses_and_doubles_none(client: OpenAI) -> None:
    items = [item for item in ITEMS if item["file"].startswith("wavs/") and item["language"] == "en"]
    sound, said = [], []
    for place in range(20):
        item = items[place % len(items)]
        samples, rate = soundfile.read(FOLDER / item["file"], dtype="int16")
        sound += [np.zeros(rate * (9 + place % 4), np.int16), samples]
        said.append(item["transcribe"]["text"])
    file = io.BytesIO()
    soundfile.write(file, np.concatenate(sound), rate, format="flac")
    heard = client.audio.transcriptions.create(
        model=MODEL, language="en", file=("long.flac", file.getvalue()), response_format="verbose_json"
    )
    assert [segment.text.strip() for segment in heard.segments or ()] == said
