"""OpenAI's SDK, and forms as other clients write them, against a real gateway and a worker that plays."""

import asyncio
import json
import os
import sys
from pathlib import Path

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from conch_contracts.names import TRANSCRIBE_PATH
from testkit.gateway.process import gateway_process
from testkit.gateway.speech import TRANSCRIPTIONS, asked, speech_route
from testkit.gateway.speech_worker import heard
from testkit.http.forms import AUDIO, BOUNDARY, HEADERS, file_part, form, parts, text_part

ROOT = Path(__file__).parents[3]
TEXT = heard(AUDIO)
FILE = ("speech.wav", AUDIO)


pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning"),  # the SDK says so of translations
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory):
    async with gateway_process(tmp_path_factory.mktemp("gateway"), speech_route()) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def audio(gateway):
    async with AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="x", max_retries=0) as client:
        yield client.audio


def message(gateway):
    """Return what the worker was asked last."""
    return asked([call.body for call in gateway.backend.calls if call.path == TRANSCRIBE_PATH][-1])


async def test_a_transcription_has_its_text_and_what_it_used(audio):
    answer = await audio.transcriptions.create(model="whisper-1", file=FILE)
    assert (answer.text, answer.usage.type, answer.usage.seconds) == (TEXT, "duration", 3)


async def test_bare_bytes_are_a_file(audio):
    assert (await audio.transcriptions.create(model="whisper-1", file=AUDIO)).text == TEXT


@pytest.mark.parametrize("text_format", ["text", "srt", "vtt"])
@pytest.mark.parametrize("endpoint", ["transcriptions", "translations"])
async def test_texts_come_as_they_are(audio, endpoint, text_format):
    answer = await getattr(audio, endpoint).create(model="ear", file=FILE, response_format=text_format)
    assert isinstance(answer, str)
    assert TEXT in answer
    assert answer.startswith("WEBVTT") == (text_format == "vtt")


async def test_a_verbose_transcription_tells_times(audio):
    answer = await audio.transcriptions.create(
        model="ear", file=FILE, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert (answer.text, answer.language, answer.duration) == (TEXT, "english", 2.5)
    assert [segment.text for segment in answer.segments] == [f" {TEXT}"]
    assert [word.word for word in answer.words] == [TEXT]


async def test_a_stream_has_openais_events(audio):
    stream = await audio.transcriptions.create(model="ear", file=FILE, stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == ["transcript.text.delta"] * 2 + ["transcript.text.done"]
    assert "".join(event.delta for event in events[:-1]) == events[-1].text == TEXT
    assert events[-1].usage.total_tokens == 136


async def test_log_probabilities_are_told(audio):
    answer = await audio.transcriptions.create(model="ear", file=FILE, include=["logprobs"])
    assert answer.logprobs[0].token == " hi"


async def test_every_field_of_the_sdk_arrives(audio, gateway):
    await audio.transcriptions.create(
        model="ear",
        file=FILE,
        chunking_strategy={"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 200},
        include=[],
        language="de",
        prompt="Zoë",
        response_format="json",
        temperature=0.4,
        timestamp_granularities=[],
        extra_body={"top_k": 3, "seed": 5, "vllm_xargs": {}, "max_completion_tokens": 9},
    )
    found = message(gateway)
    assert (found.language, found.prompt_ids) == ("de", (1, 2, 3))
    assert (found.parameters.temperatures, found.parameters.top_k) == ((0.4,), 3)
    assert (found.parameters.seed, found.parameters.max_tokens) == (5, 9)


async def test_a_translation_is_asked_for_as_such(audio, gateway):
    assert (await audio.translations.create(model="ear", file=FILE)).text == TEXT
    assert message(gateway).task == "translate"
    verbose = await audio.translations.create(model="ear", file=FILE, response_format="verbose_json")
    assert (verbose.language, verbose.segments[0].text) == ("english", f" {TEXT}")


@pytest.mark.parametrize(
    ("asked_for", "error", "code", "param"),
    [
        ({"model": "nobody"}, openai.NotFoundError, "model_not_found", "model"),
        ({"language": "hh"}, openai.BadRequestError, "invalid_value", "language"),
        ({"temperature": 1.5}, openai.BadRequestError, "invalid_value", "temperature"),
        ({"response_format": "diarized_json"}, openai.BadRequestError, "unsupported_parameter", "response_format"),
        ({"extra_body": {"vllm_xargs": {"a": 1}}}, openai.BadRequestError, "unsupported_parameter", "vllm_xargs"),
        (
            {"chunking_strategy": {"type": "server_vad", "threshold": 0.9}},
            openai.BadRequestError,
            "unsupported_parameter",
            "chunking_strategy.threshold",
        ),
        (
            {"extra_body": {"known_speaker_names": ["Ann"]}},
            openai.BadRequestError,
            "unsupported_parameter",
            "known_speaker_names",
        ),
    ],
)
async def test_the_sdk_raises_what_the_gateway_refuses(audio, asked_for, error, code, param):
    with pytest.raises(error) as caught:
        await audio.transcriptions.create(**{"model": "ear", "file": FILE, **asked_for})
    assert (caught.value.code, caught.value.param) == (code, param)


OTHERS = {
    "curl with the file first": form(("model", "ear"), ("response_format", "json")),
    "curl with the file last": form(("model", "ear"), file_last=True),
    "litellm": form(("model", "ear"), ("response_format", "verbose_json"), ("timestamp_granularities[]", "segment")),
    "langchain": parts(file_part(filename="part_0.mp3"), text_part("model", "ear"), text_part("language", "")),
    "requests": form(("model", "ear"), ("stream", "False"), ("temperature", "0")),
    "vllm's arguments as JSON": form(("model", "ear"), ("vllm_xargs", "{}"), ("hotwords", "")),
    "names without quotes": parts(
        b"Content-Disposition: form-data; name=file; filename=a.wav\r\n\r\n" + AUDIO, text_part("model", "ear")
    ),
    "no model": form(),
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS.keys())
async def test_forms_of_other_clients_are_read(gateway, body):
    status, _, answer = await gateway.post(TRANSCRIPTIONS, body, f"content-type: {HEADERS[0][1].decode()}")
    assert (status, json.loads(answer)["text"]) == (200, TEXT)


async def test_a_boundary_may_stand_in_quotes(gateway):
    header = f'Content-Type: multipart/form-data; charset=utf-8; boundary="{BOUNDARY}"'
    assert (await gateway.post(TRANSCRIPTIONS, form(), header))[0] == 200


async def test_the_previous_major_version_of_the_sdk_passes_the_same_scenarios():
    previous = ROOT / ".venv" / "openai-previous"
    assert (previous / "openai").is_dir(), "Run hack/setup: it installs the SDK's previous major version."
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", __file__, "-q", "-p", "no:cacheprovider", "-k", "not previous"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(previous)},  # noqa: TID251
        stdout=asyncio.subprocess.PIPE,
    )
    shown, _ = await run.communicate()
    assert run.returncode == 0, shown.decode()[-3000:]
