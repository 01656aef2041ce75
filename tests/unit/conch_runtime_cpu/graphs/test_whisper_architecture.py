import json

import pytest

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.whisper_architecture import parse_whisper_architecture, read_whisper_architecture
from testkit.models.speech_golden import FOLDER

CONFIG = json.loads((FOLDER / "config.json").read_text())


def test_the_shape_is_read() -> None:
    shape = read_whisper_architecture(FOLDER)
    assert (shape.width, shape.decoder_heads, shape.head_dim) == (64, 4, 16)
    assert (shape.mels, shape.positions, shape.context, shape.vocabulary) == (80, 1500, 64, 1937)
    assert shape.median_filter == 7
    assert shape.cross_bytes == 2 * 4 * 2 * 64 * 1500
    assert shape.slot_bytes(10) == shape.cross_bytes + 2 * 4 * 2 * 64 * 10


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"architectures": ["WhisperForAudioClassification"]}, "WhisperForAudioClassification"),
        ({"architectures": None}, "architecture is None"),
        ({"activation_function": "relu"}, "activation_function"),
        ({"scale_embedding": True}, "scale_embedding"),
        ({"quantization_config": {"bits": 4}}, "quantized already"),
        ({"decoder_layers": 0}, "decoder_layers"),
        ({"d_model": "wide"}, "d_model"),
        ({"decoder_attention_heads": 3}, "decoder_attention_heads"),
        ({"encoder_attention_heads": 16}, "encoder_attention_heads"),
        ({"median_filter_width": 6}, "median_filter_width"),
    ],
)
def test_what_would_change_the_numbers_is_refused(fields: dict[str, object], named: str) -> None:
    with pytest.raises(UnusableModel, match=named):
        parse_whisper_architecture(CONFIG | fields)
