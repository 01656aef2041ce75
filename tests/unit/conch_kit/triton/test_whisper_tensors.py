"""Whose config is that of the `whisper_bls` dialect, and what is sent then."""

import struct
from collections.abc import Callable

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.whisper_tensors import WhisperTensors, read_whisper_tensors, whisper_request
from testkit.engines.backend_stand_ins import FOLDER
from testkit.engines.engine_messages import inputs, text_inputs


def config(model: str = "whisper_bls") -> ModelConfig:
    return text_format.Parse((FOLDER / model / "config.pbtxt").read_text(), ModelConfig())


def test_the_config_of_the_real_models_is_read() -> None:
    made = config()
    assert read_whisper_tensors(made) == WhisperTensors(decoupled=False, takes_length=True)
    made.model_transaction_policy.decoupled = True
    del made.input[2]
    made.input.add(name="extra", data_type=DataType.TYPE_INT32, dims=[1], optional=True)
    assert read_whisper_tensors(made) == WhisperTensors(decoupled=True, takes_length=False)


def no_sound(made: ModelConfig) -> None:
    del made.input[1]


def other_sound(made: ModelConfig) -> None:
    made.input[1].data_type = DataType.TYPE_INT16


def fixed_sound(made: ModelConfig) -> None:
    made.input[1].dims[:] = [480_000]


def wide_text(made: ModelConfig) -> None:
    made.output[0].dims[:] = [1, 1]


def other_output(made: ModelConfig) -> None:
    made.output[0].name = "OUTPUT_IDS"


def needs_more(made: ModelConfig) -> None:
    made.input.add(name="REFERENCE_WAV", data_type=DataType.TYPE_FP32, dims=[-1])


def unbatched(made: ModelConfig) -> None:
    made.max_batch_size = 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (no_sound, "it has no WAV"),
        (other_sound, r"WAV is INT16 \[-1\], expected FP32 \[-1\]"),
        (fixed_sound, r"WAV is FP32 \[480000\], expected FP32 \[-1\]"),
        (wide_text, r"TRANSCRIPTS is STRING \[1, 1\], expected STRING \[1\]"),
        (other_output, "it has no TRANSCRIPTS"),
        (needs_more, "it needs the input REFERENCE_WAV"),
        (unbatched, "its max_batch_size is 0, and it must have one"),
    ],
)
def test_another_config_is_refused_by_what_it_lacks(change: Callable[[ModelConfig], None], why: str) -> None:
    made = config()
    change(made)
    with pytest.raises(MalformedResponse, match=f"whisper_bls does not speak the whisper_bls dialect: {why}.$"):
        read_whisper_tensors(made)


@pytest.mark.parametrize("model", ["speech", "vllm"])
def test_models_of_other_dialects_are_refused(model: str) -> None:
    with pytest.raises(MalformedResponse, match="it has no TEXT_PREFIX, TRANSCRIPTS, WAV"):
        read_whisper_tensors(config(model))


@pytest.mark.parametrize("takes_length", [True, False])
def test_a_request_is_one_row(takes_length: bool) -> None:
    wav = struct.pack("<3f", 0.0, 0.5, -1.0)
    tensors = WhisperTensors(decoupled=False, takes_length=takes_length)
    request = whisper_request("ear", "r1", tensors, b"<|en|>", wav)
    assert (request.model_name, request.id) == ("ear", "r1")
    length = {"WAV_LENS": ("INT32", [1, 1], [3])} if takes_length else {}
    assert inputs(request) == {"WAV": ("FP32", [1, 3], [0.0, 0.5, -1.0]), **length}
    assert text_inputs(request) == {"TEXT_PREFIX": [b"<|en|>"]}
    assert list(request.inputs[0].shape) == [1, 1]
