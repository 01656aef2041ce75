import json

import pytest

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.whisper_architecture import parse_whisper_architecture, read_whisper_architecture
from testkit.models.speech_golden import FOLDER

CONFIG = json.loads((FOLDER / "config.json").read_text())


def test_the_shape_is_read() -> None:
    shape = read_whisper_architecture(FOLDER)
    assert (shape.width, shape.decoder_heads) == (CONFIG["d_model"], CONFIG["decoder_attention_heads"])
    assert (shape.mels, shape.positions) == (CONFIG["num_mel_bins"], CONFIG["max_source_positions"])
    assert (shape.context, shape.vocabulary) == (CONFIG["max_target_positions"], CONFIG["vocab_size"])
    assert shape.median_filter == CONFIG["median_filter_width"]


def test_a_window_takes_keys_and_values_of_its_sound_and_of_its_ids() -> None:
    shape = parse_whisper_architecture(CONFIG | {"d_model": 64, "decoder_layers": 3, "max_source_positions": 100})
    assert shape.cross_bytes == 2 * 4 * 3 * 64 * 100
    assert shape.slot_bytes(10) == shape.cross_bytes + 2 * 4 * 3 * 64 * 10


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
        ({"decoder_attention_heads": 1000}, "decoder_attention_heads"),
        ({"encoder_attention_heads": 1000}, "encoder_attention_heads"),
        ({"median_filter_width": 6}, "median_filter_width"),
    ],
)
def test_what_would_change_the_numbers_is_refused(fields: dict[str, object], named: str) -> None:
    with pytest.raises(UnusableModel, match=named):
        parse_whisper_architecture(CONFIG | fields)
