"""Windows to texts and back to ids with times, with an engine that says what the test has it say."""

import asyncio

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.capabilities import Level
from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechTask
from conch_contracts.records import Dialect
from conch_contracts.speech_capabilities import SPEECH_CAPABILITIES
from conch_kit.errors import InvalidRequest, UpstreamError
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES
from conch_kit.triton.tensors import pack
from conch_speech_worker.engine.calls import calls_for
from conch_speech_worker.engine.whisper_bls import WhisperCalls
from conch_speech_worker.transcript.segments import segments_of
from testkit.builders.transcriptions import VOCABULARY, transcribe_request
from testkit.clock import FakeClock
from testkit.engines.backend_stand_ins import FOLDER
from testkit.engines.engine_messages import inputs, text_inputs
from testkit.models.tone_speech import said, silence, spoken

CONFIG = (FOLDER / "whisper_bls" / "config.pbtxt").read_text()
TARGET = changed(transcribe_request().target, dialect=Dialect.WHISPER_BLS, window_tokens=50)
PROMPT = (VOCABULARY.start_id, VOCABULARY.languages["en"], VOCABULARY.task_ids["transcribe"])


def request(**changes):
    return transcribe_request(**{"target": TARGET, **changes})


def pcm(*parts):
    return (np.concatenate(parts) * 32_767).astype(np.int16)


class Saying(TritonClient):
    """An engine that answers each call with the next text."""

    def __init__(self, *texts):
        super().__init__()
        self.texts = list(texts)
        self.asked = []
        self.patience = []
        self.most_bytes = set()

    async def model_config(self, address, model, *, timeout_s=5.0):
        self.patience.append(("config", timeout_s))
        await asyncio.sleep(0)
        return text_format.Parse(CONFIG, ModelConfig())

    async def infer(self, address, message, *, timeout_s, most_bytes):
        self.patience.append(("infer", timeout_s))
        self.most_bytes.add(most_bytes)
        self.asked.append({**inputs(message), **text_inputs(message)})
        answer = ModelInferResponse()
        answer.outputs.add(name="TRANSCRIPTS", datatype="BYTES", shape=[1])
        answer.raw_output_contents.append(pack("BYTES", [self.texts.pop(0)]))
        return answer


async def heard(triton, samples, **changes):
    calls = calls_for(triton, request(**changes), VOCABULARY, lambda: None)
    return await calls.hear(samples, PROMPT, 10.0)


async def test_a_text_stands_between_the_times_of_its_part():
    triton = Saying(b"w03 w01")
    window = await heard(triton, pcm(spoken([3, 1]), silence(0.6)))
    (segment,) = segments_of(window, VOCABULARY, start_s=10.0, length_s=1.0)
    assert (segment.text, segment.start, segment.end) == (" w03 w01", 10.0, 11.0)
    assert (window.prompt_tokens, window.completion_tokens) == (4, 2)
    assert triton.most_bytes == {MAX_CONTROL_BYTES}
    (asked,) = triton.asked
    assert asked["TEXT_PREFIX"] == [b"<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"]
    assert asked["WAV_LENS"][2] == [SAMPLE_RATE]


async def test_it_tells_of_a_call_that_goes_on():
    told = asyncio.Event()

    class Slow(Saying):
        async def infer(self, address, message, *, timeout_s, most_bytes):
            await told.wait()
            return await super().infer(address, message, timeout_s=timeout_s, most_bytes=most_bytes)

    calls = calls_for(Slow(b"w03"), request(), VOCABULARY, told.set)
    async with asyncio.timeout(30):
        assert (await calls.hear(pcm(spoken([3])), PROMPT, 60.0)).completion_tokens == 1


async def test_what_hears_of_a_call_ends_it_where_it_fails():
    class Endless(Saying):
        async def infer(self, address, message, *, timeout_s, most_bytes):
            await asyncio.Event().wait()

    def fail():
        raise ConnectionError("gone")

    calls = calls_for(Endless(), request(), VOCABULARY, fail)
    with pytest.raises(ConnectionError, match="gone"):
        async with asyncio.timeout(30):
            await calls.hear(pcm(spoken([3])), PROMPT, 60.0)


async def test_windows_that_are_heard_at_once_read_the_models_config_once():
    triton = Saying(*[b"w03"] * 4)
    calls = calls_for(triton, request(), VOCABULARY, lambda: None)
    await asyncio.gather(*(calls.hear(pcm(spoken([3])), PROMPT, 60.0) for _ in range(4)))
    assert [what for what, _ in triton.patience] == ["config", *["infer"] * 4]


async def test_a_read_that_was_cancelled_is_made_again():
    reading = asyncio.Event()

    class Hanging(Saying):
        async def model_config(self, address, model, *, timeout_s=5.0):
            if not reading.is_set():
                reading.set()
                await asyncio.Event().wait()
            return await super().model_config(address, model, timeout_s=timeout_s)

    calls = calls_for(Hanging(b"w03"), request(), VOCABULARY, lambda: None)
    first, second = (asyncio.create_task(calls.hear(pcm(spoken([3])), PROMPT, 60.0)) for _ in range(2))
    async with asyncio.timeout(30):
        await reading.wait()
        first.cancel()
        assert (await second).completion_tokens == 1


@pytest.mark.parametrize(
    ("first_token_timeout_s", "patience"),
    [(120.0, [("config", 10.0), ("infer", 6.0)]), (5.0, [("config", 5.0), ("infer", 5.0)])],
)
async def test_the_read_of_the_config_takes_its_time_from_the_requests(first_token_timeout_s, patience):
    clock = FakeClock()

    class SlowToTell(Saying):
        async def model_config(self, address, model, *, timeout_s=5.0):
            config = await super().model_config(address, model, timeout_s=timeout_s)
            clock.advance(4.0)
            return config

    triton = SlowToTell(b"w03")
    asked = request(first_token_timeout_s=first_token_timeout_s)
    await WhisperCalls(triton, asked, VOCABULARY, lambda: None, clock).hear(pcm(spoken([3])), PROMPT, 10.0)
    assert triton.patience == patience


@pytest.mark.parametrize(("first_token_timeout_s", "first_s"), [(120.0, 10.0), (5.0, 5.0)])
async def test_a_stream_has_the_time_that_the_request_gives_it(first_token_timeout_s, first_s):
    class Streaming(Saying):
        async def model_config(self, address, model, *, timeout_s=5.0):
            config = await super().model_config(address, model, timeout_s=timeout_s)
            config.model_transaction_policy.decoupled = True
            return config

        async def stream(self, address, message, **limits):
            self.limits = limits
            yield await self.infer(address, message, timeout_s=0, most_bytes=0)

    triton = Streaming(b"w03")
    asked = request(first_token_timeout_s=first_token_timeout_s, inter_token_timeout_s=2.5)
    window = await WhisperCalls(triton, asked, VOCABULARY, lambda: None, FakeClock()).hear(
        pcm(spoken([3])), PROMPT, 10.0
    )
    assert window.completion_tokens == 1
    bounds = {"timeout_s": 10.0, "most_bytes": MAX_CONTROL_BYTES}
    assert triton.limits == {"first_timeout_s": first_s, "inter_timeout_s": 2.5, **bounds}


async def test_parts_have_their_own_times_and_the_silent_ones_are_not_asked_for():
    triton = Saying(b"w01", b"w02")
    sound = pcm(spoken([1] * 40), silence(16), spoken([2] * 20))
    window = await heard(triton, sound)
    one, two = segments_of(window, VOCABULARY, start_s=0.0, length_s=len(sound) / SAMPLE_RATE)
    assert (one.text, two.text) == (" w01", " w02")
    assert one.end <= two.start
    assert one.end <= 12.0
    assert two.end == 28.0
    assert len(triton.asked) == 2
    assert (window.prompt_tokens, window.completion_tokens) == (8, 2)


@pytest.mark.parametrize("full", [said([1] * 45).encode(), "w01 \ufffd".encode()])
async def test_what_may_have_been_cut_is_heard_again_in_halves(full):
    triton = Saying(full, b"w01 w01", b"w02")
    window = await heard(triton, pcm(spoken([1] * 40)))
    found = segments_of(window, VOCABULARY, start_s=0.0, length_s=8.0)
    assert "".join(one.text for one in found) == " w01 w01 w02"
    assert (found[0].start, found[0].end, found[1].end) == (0.0, found[1].start, 8.0)
    lengths = [asked["WAV"][1][1] / SAMPLE_RATE for asked in triton.asked]
    assert lengths == [8.0, pytest.approx(4, abs=0.1), pytest.approx(4, abs=0.1)]
    assert window.completion_tokens == 3


async def test_a_text_that_never_ends_is_taken_where_its_part_gets_short():
    triton = Saying(*[said([1] * 50).encode()] * 3)
    window = await heard(triton, pcm(spoken([1] * 30)))
    assert (len(triton.asked), window.completion_tokens) == (3, 100)


async def test_more_tokens_of_a_window_make_longer_parts():
    triton = Saying(b"w01", b"w01")
    await heard(triton, pcm(spoken([1] * 150)), target=changed(TARGET, window_tokens=96))
    assert [asked["WAV"][1][1] > 14 * SAMPLE_RATE for asked in triton.asked] == [True, False]


async def test_marks_are_no_text_and_an_empty_text_is_none():
    window = await heard(Saying(b"<|en|> w03<|2.00|> "), pcm(spoken([3])))
    assert VOCABULARY.text(window.ids[1:-1]) == " w03"
    assert (await heard(Saying(b" <|endoftext|>"), pcm(spoken([3])))).ids == ()


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({"language": "en"}, " w03"),
        ({"language": "zh"}, "w03"),
        ({"language": "zh", "task": SpeechTask.TRANSLATE}, " w03"),
    ],
)
async def test_texts_are_joined_as_their_language_is_written(changes, begins):
    encoded = []

    class Noting(type(VOCABULARY)):
        def ids(self, text):
            encoded.append(text)
            return ()

    noting = object.__new__(Noting)
    noting.__dict__.update(VOCABULARY.__dict__)
    calls = calls_for(Saying(b"w03"), request(**changes), noting, lambda: None)
    await calls.hear(pcm(spoken([3])), PROMPT, 10.0)
    assert encoded == [begins]


async def test_a_moment_of_sound_is_made_long_enough_for_a_spectrogram():
    triton = Saying(b"w01")
    await heard(triton, np.full(170, 9000, np.int16))
    assert triton.asked[0]["WAV"][1] == [1, 201]


@pytest.mark.parametrize(
    ("text", "why"),
    [(b"\xff", "is not UTF-8"), (b"\xed\xa0\x80", "is not UTF-8"), (b"w01 " * 20_000, "has 80000 bytes, too many")],
)
async def test_a_text_that_is_none_is_the_engines_fault(text, why):
    with pytest.raises(MalformedResponse, match=why):
        await heard(Saying(text), pcm(spoken([3])))


PARAMETERS = transcribe_request().parameters
REFUSED = {
    "language": {"language": None},
    "languages": {"languages": ("de", "en")},
    "prompt": {"prompt_ids": (1, 2)},
    "include": {"logprobs": True},
    "timestamp_granularities": {"words": True},
    "temperature": {"parameters": changed(PARAMETERS, temperatures=(0.2,))},
    "top_p": {"parameters": changed(PARAMETERS, top_p=0.9)},
    "top_k": {"parameters": changed(PARAMETERS, top_k=5)},
    "min_p": {"parameters": changed(PARAMETERS, min_p=0.1)},
    "seed": {"parameters": changed(PARAMETERS, seed=0)},
    "repetition_penalty": {"parameters": changed(PARAMETERS, repetition_penalty=1.1)},
    "frequency_penalty": {"parameters": changed(PARAMETERS, frequency_penalty=0.1)},
    "presence_penalty": {"parameters": changed(PARAMETERS, presence_penalty=-0.1)},
    "max_completion_tokens": {"parameters": changed(PARAMETERS, max_tokens=63)},
}


@pytest.mark.parametrize("param", REFUSED)
def test_what_the_dialect_cannot_express_is_refused(param):
    with pytest.raises(InvalidRequest, match=rf"\(whisper_bls\) cannot obey '{param}'") as refusal:
        calls_for(Saying(), request(**REFUSED[param]), VOCABULARY, lambda: None)
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_parameter")


def test_every_parameter_that_the_dialect_lacks_is_tried():
    table = SPEECH_CAPABILITIES[Dialect.WHISPER_BLS]
    lacked = {param for feature in table if table[feature].level is Level.NO for param in feature.params}
    assert lacked | {"language"} == set(REFUSED)


@pytest.mark.parametrize(("multilingual", "language"), [(True, "en"), (False, None)])
def test_what_a_gateway_fills_in_by_itself_is_not_refused(multilingual, language):
    """Temperatures behind greedy ones, and thresholds; a model of one language needs none."""
    parameters = changed(PARAMETERS, temperatures=(0.0, 0.2, 0.4), logprob_threshold=-1.0, no_speech_threshold=0.6)
    target = changed(TARGET, multilingual=multilingual)
    calls_for(Saying(), request(language=language, target=target, parameters=parameters), VOCABULARY, lambda: None)


def test_the_tokens_of_a_window_have_no_default_here():
    with pytest.raises(UpstreamError, match="whisper_bls dialect needs the tokens of a window"):
        calls_for(Saying(), request(target=changed(TARGET, window_tokens=None)), VOCABULARY, lambda: None)
