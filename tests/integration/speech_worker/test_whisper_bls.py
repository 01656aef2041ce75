"""The speech-worker with the Whisper models that others run on Triton, as stand-ins that hear tones."""

import asyncio
import random

import numpy as np
import pytest

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechTask, TranscriptFormat
from conch_contracts.records import Dialect
from testkit.models.tone_speech import WORD_S, file_of, said, silence, spoken
from testkit.waiting import eventually

FEW = [3, 1, 4, 1, 5, 9, 2, 6]
PREFIX = "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
MODELS = ("whisper", "whisper-96", "whisper-old", "whisper-streamed")


def long_speech(seconds: float, seed: int) -> tuple[np.ndarray, list[int]]:
    """Return sound and its words: five a second, more than an engine writes of a full window."""
    chance, parts, words, at = random.Random(seed), [], [], 0.0
    while at < seconds:
        pause = chance.choice([0, 0, 0.1, 0.25, 0.5, 3])
        run = [chance.randrange(64) for _ in range(chance.randint(1, 200))]
        parts += [silence(pause), spoken(run)]
        words += run
        at += pause + WORD_S * len(run)
    return np.concatenate(parts), words


@pytest.mark.parametrize("model", MODELS)
async def test_what_is_said_is_written(stage, model):
    answer = await stage.hear(file_of(spoken(FEW)), model, request_id=f"few-{model}")
    assert (answer.status, answer.json["text"]) == (200, said(FEW))
    assert (answer.usage["prompt_tokens"], answer.usage["completion_tokens"]) == (4, len(FEW))
    (note,) = stage.seen("heard", f"few-{model}")
    assert note["prefix"] == PREFIX


@pytest.mark.parametrize("model", MODELS)
async def test_three_minutes_lose_and_double_no_word(stage, model):
    sound, words = long_speech(180, seed=len(model))
    target = stage.request(model).target
    if model == "whisper-96":
        target = changed(target, window_tokens=96)
    answer = await stage.hear(
        file_of(sound), model, target=target, format=TranscriptFormat.VERBOSE_JSON, segments=True, request_id=model
    )
    assert answer.json["text"] == said(words)
    bounds = [time for segment in answer.json["segments"] for time in (segment["start"], segment["end"])]
    assert bounds == sorted(bounds)
    assert max(segment["end"] - segment["start"] for segment in answer.json["segments"]) <= 24
    asked = stage.seen("heard", model)
    assert max(note["samples"] for note in asked) <= (24 if model == "whisper-96" else 12) * 16_000


async def test_without_hearing_again_an_engine_loses_words(stage):
    sound, words = long_speech(60, seed=1)
    target = changed(stage.request("whisper").target, window_tokens=448)  # which is not so
    answer = await stage.hear(file_of(sound), "whisper", target=target)
    assert answer.json["text"] != said(words)


async def test_all_forms_and_the_deltas_have_the_same_text(stage):
    sound, words = long_speech(45, seed=3)
    file = file_of(sound)
    for model in ("whisper", "whisper-streamed"):
        forms = [await stage.hear(file, model, format=form) for form in TranscriptFormat]
        streams = [await stage.hear(file, model, stream=whose) for whose in ("openai", "vllm")]
        cues = [block.split("\n", 2)[2] for block in forms[2].body.decode().strip().split("\n\n")]
        texts = {
            forms[0].json["text"],
            forms[1].body.decode().removesuffix("\n"),
            forms[4].json["text"],
            " ".join(cues),
            "".join(event.get("delta", "") for event in streams[0].events),
            streams[0].events[-1]["text"],
            "".join(event["choices"][0]["delta"]["content"] for event in streams[1].events),
        }
        assert texts == {said(words)}


async def test_a_translation_and_a_language_are_in_the_prefix(stage):
    await stage.hear(
        file_of(spoken(FEW)), "whisper", language="de", task=SpeechTask.TRANSLATE, request_id="whisper-translated"
    )
    (note,) = stage.seen("heard", "whisper-translated")
    assert note["prefix"] == "<|startoftranscript|><|de|><|translate|><|notimestamps|>"


@pytest.mark.parametrize(
    ("changes", "param"),
    [({"language": None}, "language"), ({"words": True}, "timestamp_granularities"), ({"prompt_ids": (1,)}, "prompt")],
)
async def test_what_it_cannot_do_is_refused_before_the_engine_hears(stage, changes, param):
    answer = await stage.hear(file_of(spoken(FEW)), "whisper", request_id=f"refused-{param}", **changes)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)
    assert stage.seen("heard", f"refused-{param}") == []


@pytest.mark.parametrize("model", ["whisper-slow", "whisper-slow-streamed"])
async def test_whoever_hangs_up_has_cancelled_the_call(stage, model):
    file = file_of(spoken([1] * 300))
    request = stage.request(model, file_bytes=len(file), request_id=f"gone-{model}")
    asking = asyncio.create_task(stage.worker.ask(stage.session, request, file))
    await eventually(lambda: stage.seen("heard", request.request_id), "an engine to hear")
    asking.cancel()
    await eventually(lambda: stage.seen("cancelled", request.request_id), "the engine to hear of it")
    assert len(stage.seen("heard", request.request_id)) <= 4


@pytest.mark.parametrize("model", ["whisper-slow", "whisper-slow-streamed"])
async def test_an_engine_that_is_silent_for_too_long_is_given_up(stage, model):
    answer = await stage.hear(file_of(spoken(FEW)), model, first_token_timeout_s=0.5)
    assert answer.status == 504, answer.body


@pytest.mark.parametrize("model", ["whisper-broken", "whisper-broken-streamed"])
async def test_an_engine_that_fails_is_a_failure_without_its_words(stage, model):
    answer = await stage.hear(file_of(spoken(FEW)), model)
    assert answer.status == 502
    assert "KV cache" not in answer.body.decode()
    assert (await stage.hear(file_of(spoken([1])), model)).json["text"] == said([1])


async def test_a_model_of_another_dialect_is_no_whisper(stage):
    target = changed(stage.request("plain").target, dialect=Dialect.WHISPER_BLS, window_tokens=50)
    answer = await stage.hear(file_of(spoken(FEW)), "plain", target=target)
    assert answer.status == 502
