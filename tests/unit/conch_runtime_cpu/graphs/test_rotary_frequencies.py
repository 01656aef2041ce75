import pytest

from conch_runtime_cpu.graphs.decoder_architecture import parse_decoder_architecture
from conch_runtime_cpu.graphs.rotary_frequencies import rotary_frequencies
from testkit.models.random_model import RandomModel, config

LLAMA_3_2 = {
    "head_dim": 64,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}
BY_TRANSFORMERS = [
    *(1.0, 0.663601238, 0.440366603, 0.292227823, 0.193922745, 0.128687373, 0.0853971003, 0.0566696214),
    *(0.0376060309, 0.0249554087, 0.0165604401, 0.0109895285, 0.00729266474, 0.00483942135, 0.00321144599),
    *(0.00129054793, 0.000429556797, 9.7082878e-05, 1.94616382e-05, 1.29147672e-05, 8.57025549e-06, 5.68723215e-06),
    *(3.77405429e-06, 2.5044671e-06, 1.66196747e-06, 1.10288367e-06, 7.31874968e-07, 4.85673134e-07, 3.22293293e-07),
    *(2.13874228e-07, 1.41927203e-07, 9.41830673e-08),
]
"""`_compute_llama3_parameters` of transformers 5.23 for Llama-3.2-1B."""


def test_llama_3_turns_slow_frequencies_slower() -> None:
    architecture = parse_decoder_architecture(config(RandomModel()) | LLAMA_3_2)
    assert rotary_frequencies(architecture) == pytest.approx(BY_TRANSFORMERS, rel=1e-5)


def test_without_scaling_they_follow_from_the_base_alone() -> None:
    architecture = parse_decoder_architecture(config(RandomModel()) | {"head_dim": 64, "rope_theta": 500_000.0})
    assert rotary_frequencies(architecture)[:3] == pytest.approx(BY_TRANSFORMERS[:3], rel=1e-5)
    assert rotary_frequencies(architecture)[-1] == pytest.approx(BY_TRANSFORMERS[-1] * 32, rel=1e-5)
