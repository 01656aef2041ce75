"""Whisper models on a Triton that someone else runs: what the probe says of them, and `conch up` with one."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from openai import BadRequestError, OpenAI

from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.probe.prober import NoAnswer, Target
from conch_operator.probe.triton_request import TritonProbeClient
from testkit.engines.backend_stand_ins import install, parameter
from testkit.models.tone_speech import file_of, said, spoken, write_tone_folder
from testkit.processes.conch_up import ConchUp
from testkit.servers.triton import RunningTriton, triton_server

WORDS = [number % 64 for number in range(150)]
"""Thirty seconds, of which an engine would write down the first ten."""
VARIANTS = {
    "infer_bls": {},
    "streamed": {"decoupled: false": "decoupled: true"},
    "broken": parameter("fail_at", 0),
    "unbatched": {"max_batch_size: 8": "max_batch_size: 0", "dynamic_batching { }": ""},
}


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    folder = tmp_path_factory.mktemp("whisper")
    for name, changes in VARIANTS.items():
        named = {'name: "whisper_bls"': f'name: "{name}"'}
        install(folder / "models", name, "whisper_bls", changes=named | changes)
    with triton_server(folder / "models", *VARIANTS, folder=folder) as server:
        yield server


async def probe(triton: RunningTriton, model: str) -> None:
    async with TritonClient() as client, TritonHttp() as http:
        await TritonProbeClient(client, http).probe(Target(EngineAddress(triton.grpc), model, Dialect.WHISPER_BLS))


@pytest.mark.parametrize("model", ["infer_bls", "streamed"])
async def test_a_model_that_hears_is_ready(triton: RunningTriton, model: str) -> None:
    await probe(triton, model)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("broken", "KV cache is exhausted"),
        ("unbatched", "does not speak the whisper_bls dialect: its max_batch_size is 0, and it must have one"),
        ("nobody", "holds no model called nobody"),
    ],
)
async def test_a_model_that_does_not_is_told_by_its_reason(triton: RunningTriton, model: str, why: str) -> None:
    with pytest.raises(NoAnswer, match=why):
        await probe(triton, model)


def test_it_transcribes_with_conch_up(tmp_path: Path, triton: RunningTriton) -> None:
    external = {"grpc": triton.grpc, "modelName": "infer_bls", "dialect": "whisper_bls"}
    model = {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "ear"},
        "spec": {
            "kind": "Transcription",
            "servedNames": ["whisper-1"],
            "source": {"path": str(write_tone_folder(tmp_path / "tones"))},
            "engine": {"external": external},
        },
    }
    (tmp_path / "ear.yaml").write_text(yaml.safe_dump(model))
    sound = file_of(spoken(WORDS))
    with (
        ConchUp(tmp_path / "state", tmp_path / "ear.yaml") as conch,
        OpenAI(base_url=conch.base_url, api_key="x", timeout=120, max_retries=0) as client,
    ):
        create = client.audio.transcriptions.create

        def speech() -> io.BytesIO:
            file = io.BytesIO(sound)
            file.name = "speech.wav"
            return file

        assert create(model="whisper-1", file=speech(), language="en").text == said(WORDS)
        events = list(create(model="whisper-1", file=speech(), language="en", stream=True))
        assert "".join(event.delta for event in events if event.type == "transcript.text.delta") == said(WORDS)
        refused = {
            "language": {},
            "prompt": {"language": "en", "prompt": "Conch"},
            "temperature": {"language": "en", "temperature": 0.5},
            "timestamp_granularities": {
                "language": "en",
                "response_format": "verbose_json",
                "timestamp_granularities": ["word"],
            },
        }
        for param, asked in refused.items():
            with pytest.raises(BadRequestError) as caught:
                create(model="whisper-1", file=speech(), **asked)
            assert caught.value.param == param
