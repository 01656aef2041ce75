from typing import Any

import pytest

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.decoder_architecture import RopeScaling, parse_decoder_architecture
from testkit.models.random_model import RandomModel, config

_LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_the_known_architectures_are_read(name: str) -> None:
    shape = parse_decoder_architecture(config(RandomModel(name)))
    assert (shape.name, shape.heads, shape.kv_heads, shape.head_dim) == (name, 4, 2, 16)


@pytest.mark.parametrize(
    ("fields", "theta"),
    [
        ({"rope_theta": 5.0}, 5.0),
        ({"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}, "rope_theta": None}, 7.0),
        ({"rope_parameters": {"rope_theta": 7.0}, "rope_theta": 5.0}, 7.0),
        ({"rope_theta": None, "rope_scaling": None}, 10_000.0),
    ],
)
def test_the_rotary_base_is_found_in_either_place(fields: dict[str, Any], theta: float) -> None:
    assert parse_decoder_architecture(config(RandomModel()) | fields).rope_theta == theta


def test_the_scaling_of_llama_3_is_read() -> None:
    shape = parse_decoder_architecture(config(RandomModel()) | {"rope_scaling": _LLAMA_3})
    assert shape.rope_scaling == RopeScaling(factor=8, low_freq=1, high_freq=4, original=8192)


def test_missing_head_fields_follow_from_the_others() -> None:
    fields = config(RandomModel()) | {"head_dim": None, "num_key_value_heads": None, "hidden_size": 128}
    shape = parse_decoder_architecture(fields)
    assert (shape.kv_heads, shape.head_dim) == (4, 32)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "this model's architecture is GPT2LMHeadModel"),
        ({"architectures": []}, "this model's architecture is None"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "factor must be a positive number"),
        ({"rope_scaling": _LLAMA_3 | {"low_freq_factor": 4}}, "low_freq_factor of rope_scaling must be below"),
        ({"rope_scaling": {"type": "linear"}}, "Rope scaling of type linear"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "Rope scaling of type yarn"),
        ({"hidden_act": "gelu"}, "hidden_act must be silu"),
        ({"quantization_config": {"bits": 4}}, "quantized already"),
        ({"use_sliding_window": True, "sliding_window": 128}, "Sliding-window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"num_key_value_heads": 3}, "multiple of num_key_value_heads"),
        ({"head_dim": 24}, "head_dim must be a multiple of 16"),
        ({"vocab_size": "many"}, "vocab_size must be a positive number"),
    ],
)
def test_what_cannot_be_computed_exactly_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        parse_decoder_architecture(config(RandomModel()) | fields)
