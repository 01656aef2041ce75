"""The speech-worker with engines that hear tones: what is said comes out, in every form and from every kind of file."""

import random

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_contracts.messages.transcription import SpeechTask, TranscriptFormat
from testkit.models.container_files import FORMS, container_of
from testkit.models.damaged_sound import KINDS, WAYS, damaged, sound_files
from testkit.models.tone_speech import WORD_S, WORDS, file_of, said, silence, spoken, tone_tokenizer

FEW = [3, 1, 4, 1, 5, 9, 2, 6]
RATES = {"mp3": (8_000, 16_000, 44_100, 48_000), "opus": (8_000, 16_000, 24_000, 48_000)}


def long_speech(seconds: float, seed: int) -> tuple[np.ndarray, list[int], list[float]]:
    """Return sound, its words, and when each begins: runs of words between pauses of all lengths."""
    chance, parts, words, starts, at = random.Random(seed), [], [], [], 0.0
    while at < seconds:
        pause = chance.choice([0, 0, 0.1, 0.25, 0.5, 1, 3])
        run = [chance.randrange(WORDS) for _ in range(chance.randint(1, 200))]
        parts += [silence(pause), spoken(run)]
        starts += [at + pause + WORD_S * index for index in range(len(run))]
        words += run
        at += pause + WORD_S * len(run)
    return np.concatenate(parts), words, starts


async def test_what_is_said_is_written(stage):
    answer = await stage.hear(file_of(spoken(FEW)))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"text": said(FEW), "usage": {"type": "duration", "seconds": 2}}
    assert answer.usage["completion_tokens"] == len(FEW) + 2


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_file_says_the_same(stage, kind, channels):
    for rate in RATES.get(kind, (8_000, 22_050, 48_000)):
        file = file_of(spoken(FEW, rate), rate, kind=KINDS[kind][0], subtype=KINDS[kind][1], channels=channels)
        answer = await stage.hear(file, format=TranscriptFormat.VERBOSE_JSON)
        assert (answer.json["text"], rate) == (said(FEW), rate)
        assert abs(answer.json["duration"] - WORD_S * len(FEW)) < 0.1


@pytest.mark.parametrize("form", FORMS)
async def test_every_kind_of_container_says_the_same(stage, form):
    words = [number % WORDS for number in range(60)]
    for rate, channels in ((16_000, 1), (48_000, 2)):
        file = container_of(spoken(words, rate), form, rate, channels=channels)
        answer = await stage.hear(file, format=TranscriptFormat.VERBOSE_JSON)
        assert (answer.json["text"], rate) == (said(words), rate)
        assert abs(answer.json["duration"] - WORD_S * len(words)) < 0.15


@pytest.mark.parametrize("kind", KINDS)
async def test_a_minute_of_every_kind_of_file_loses_no_word(stage, kind):
    words = [number % WORDS for number in range(300)]
    rate = 48_000 if kind == "opus" else 44_100
    file = file_of(spoken(words, rate), rate, kind=KINDS[kind][0], subtype=KINDS[kind][1])
    assert (await stage.hear(file)).json["text"] == said(words)


@pytest.mark.parametrize(("model", "minutes"), [("plain", 10), ("hasty", 10), ("hasty", 60)])
async def test_long_files_lose_and_double_no_word(stage, model, minutes):
    sound, words, starts = long_speech(60 * minutes, seed=len(model))
    answer = await stage.hear(file_of(sound), model, format=TranscriptFormat.VERBOSE_JSON, words=True, segments=True)
    assert answer.json["text"] == said(words)
    found = [word["start"] for word in answer.json["words"]]
    assert max(abs(one - other) for one, other in zip(found, starts, strict=True)) <= 0.02
    bounds = [time for segment in answer.json["segments"] for time in (segment["start"], segment["end"])]
    assert bounds == sorted(bounds)


async def test_all_forms_and_the_deltas_have_the_same_text(stage):
    for seed in range(5):
        sound, words, _ = long_speech(45, seed)
        file = file_of(sound)
        forms = [await stage.hear(file, "hasty", format=form) for form in TranscriptFormat]
        streams = [await stage.hear(file, "hasty", stream=whose) for whose in ("openai", "vllm")]
        texts = {
            forms[0].json["text"],
            forms[1].body.decode().removesuffix("\n"),
            forms[4].json["text"],
            "".join(event.get("delta", "") for event in streams[0].events),
            streams[0].events[-1]["text"],
            "".join(event["choices"][0]["delta"]["content"] for event in streams[1].events),
        }
        assert texts == {said(words)}
        cues = [block.split("\n", 2)[2] for block in forms[2].body.decode().strip().split("\n\n")]
        assert " ".join(cues) == said(words)
        assert [block.split("\n", 1)[1] for block in forms[3].body.decode().strip().split("\n\n")[1:]] == cues


async def test_a_stream_has_the_events_of_openai(stage):
    answer = await stage.hear(file_of(spoken(FEW)), stream="openai", logprobs=True)
    delta, done = answer.events
    assert delta["type"] == "transcript.text.delta"
    assert [entry["token"].strip() for entry in delta["logprobs"]] == said(FEW).split()
    assert done["type"] == "transcript.text.done"
    assert done["usage"]["output_tokens"] == len(FEW) + 2
    assert answer.frames[-2:] == ["data: [DONE]", answer.frames[-1]]
    assert answer.usage["audio_s"] == pytest.approx(WORD_S * len(FEW))


async def test_a_stream_has_the_chunks_of_vllm(stage):
    answer = await stage.hear(file_of(spoken(FEW)), stream="vllm", include_usage=True)
    first, last, usage = answer.events
    assert first["object"] == "transcription.chunk"
    assert first["choices"] == [{"delta": {"content": said(FEW)}, "finish_reason": None}]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(FEW) + 2


async def test_the_first_window_finds_the_language_for_all(stage):
    sound, words, _ = long_speech(70, seed=7)
    request = {"language": None, "languages": ("de",), "format": TranscriptFormat.VERBOSE_JSON, "request_id": "finds"}
    answer = await stage.hear(file_of(sound), **request)
    assert answer.json["language"] == "german"
    assert answer.json["text"] == said(words)
    german = tone_tokenizer().token_to_id("<|de|>")
    asked = [note["prompt"][1] for note in stage.seen("heard", "finds")]
    assert asked[0] == -1
    assert set(asked[1:]) == {german}


async def test_what_came_before_is_told_with_its_end(stage):
    await stage.hear(file_of(spoken(FEW)), prompt_ids=tuple(range(40)) * 10, request_id="before")
    (note,) = stage.seen("heard", "before")
    previous = tone_tokenizer().token_to_id("<|startofprev|>")
    assert note["prompt"][0] == previous
    assert note["prompt"][1:224] == (list(range(40)) * 10)[-223:]


async def test_a_translation_says_so(stage):
    answer = await stage.hear(
        file_of(spoken(FEW)), task=SpeechTask.TRANSLATE, request_id="translated", format=TranscriptFormat.VERBOSE_JSON
    )
    assert answer.json["task"] == "translate"
    (note,) = stage.seen("heard", "translated")
    assert note["prompt"][2] == tone_tokenizer().token_to_id("<|translate|>")


async def test_silence_is_no_text_and_asks_no_engine(stage):
    answer = await stage.hear(
        file_of(silence(40)), format=TranscriptFormat.VERBOSE_JSON, segments=True, request_id="silent"
    )
    assert answer.status == 200
    assert (answer.json["text"], answer.json["segments"], answer.json["duration"]) == ("", [], 40.0)
    assert stage.seen("heard", "silent") == []


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"", "audio_too_short"),
        (file_of(silence(0.05)), "audio_too_short"),
        (b"hello, this is a text", "unsupported_format"),
        (b"PK\x03\x04" + bytes(100), "unsupported_format"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "unsupported_format"),
        (b"\x00\x00\x00\x20ftypM4A " + bytes(100), "invalid_audio"),
        (b"\x00\x00\x00\x20ftypM4A " + b"#EXTM3U\n#EXTINF:9,\nfile:///etc/passwd\n", "invalid_audio"),
        (container_of(silence(1, 48_000), "m4a", tracks=0, video=True), "unsupported_format"),
        (b"RIFF\x00\x00\x00\x00WAVE", "invalid_audio"),
        (b"fLaC" + bytes(100), "invalid_audio"),
        (file_of(silence(1, 1000), 1000), "invalid_audio"),
        (file_of(silence(0.2, 384_000), 384_000), "invalid_audio"),
        (file_of(silence(1), channels=9), "invalid_audio"),
        (file_of(np.full(SAMPLE_RATE, np.nan, np.float32), subtype="FLOAT"), "invalid_audio"),
    ],
)
async def test_what_cannot_be_heard_is_refused_by_its_reason(stage, file, code):
    answer = await stage.hear(file)
    assert (answer.status, answer.json["error"]["code"], answer.json["error"]["param"]) == (400, code, "file")
    assert (await stage.hear(file_of(spoken(FEW)))).json["text"] == said(FEW)


async def test_what_is_too_long_is_refused(stage):
    plain = [file_of(silence(5), kind=kind, subtype=subtype) for kind, subtype in KINDS.values()]
    for file in (*plain, *(container_of(silence(5), form, SAMPLE_RATE) for form in FORMS)):
        answer = await stage.hear(file, max_audio_s=4.0)
        assert (answer.status, answer.json["error"]["code"]) == (400, "audio_too_long")


async def test_a_file_whose_end_is_missing_says_what_is_there(stage):
    words = FEW * 10
    for kind, subtype in (("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("MP3", "MPEG_LAYER_III")):
        whole = file_of(spoken(words), kind=kind, subtype=subtype)
        answer = await stage.hear(whole[: len(whole) * 3 // 4])
        assert answer.status == 200, kind
        assert said(words).startswith(answer.json["text"][:100]), kind
        assert len(answer.json["text"].split()) > len(words) // 2, kind


async def test_damaged_files_are_heard_or_refused(stage):
    chance = random.Random(11)
    for name, file in sound_files(spoken(FEW)).items():
        for way in WAYS:
            answer = await stage.hear(damaged(file, way, chance))
            assert answer.status in (200, 400), (name, way, answer.body)
