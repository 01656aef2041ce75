"""Reads a model's `config.json` into a DecoderArchitecture, and refuses what the graph could not compute exactly.

A field that would change the result and is not understood is an error here, never ignored: an engine that answers with
slightly wrong numbers is worse than one that does not start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.config_json import read_config, refuse_quantized

SUPPORTED = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_ROPES = (None, "default", "llama3")
_DEFAULT_THETA = 10_000.0
_HEAD_DIM_MULTIPLE = 16  # what onnxruntime's rotary attention takes

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How Llama 3.1 and later turn slow frequencies slower, for a context beyond the one of their first training.

    As `_compute_llama3_parameters` of transformers has it. A frequency with a wave of at most `original / high_freq`
    tokens stays, one with a wave of at least `original / low_freq` is divided by the factor, and between these the
    share of both changes evenly with the waves in `original`.
    """

    factor: float
    low_freq: float
    high_freq: float
    original: int
    """The context of the first training, in tokens."""


@dataclass(frozen=True, slots=True)
class DecoderArchitecture:
    """The shape of a decoder-only transformer with rotary positions and grouped-query attention."""

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    rope_theta: float
    rope_scaling: RopeScaling | None
    norm_epsilon: float
    tied_embeddings: bool

    @property
    def kv_bytes_per_token(self) -> int:
        """Return the memory that the keys and values of one token take."""
        return 2 * 4 * self.layers * self.kv_heads * self.head_dim

    @property
    def kv_bytes_per_sequence(self) -> int:
        """Return the memory that those of one full-length sequence take."""
        return self.kv_bytes_per_token * self.context


def read_decoder_architecture(folder: Path) -> DecoderArchitecture:
    """Read `config.json` of a Hugging Face folder; raises UnusableModel."""
    return parse_decoder_architecture(read_config(folder))


def parse_decoder_architecture(config: Mapping[str, object]) -> DecoderArchitecture:
    """Return the architecture that a parsed `config.json` describes; raises UnusableModel."""
    name = _name(config)
    _refuse_variants(config)
    heads = _number(config, "num_attention_heads", int)
    kv_heads = _number(config, "num_key_value_heads", int, default=heads)
    head_dim = _number(config, "head_dim", int, default=_number(config, "hidden_size", int) // heads)
    if heads % kv_heads:
        raise UnusableModel(f"num_attention_heads ({heads}) must be a multiple of num_key_value_heads ({kv_heads}).")
    if head_dim % _HEAD_DIM_MULTIPLE:
        raise UnusableModel(f"head_dim must be a multiple of {_HEAD_DIM_MULTIPLE}; found {head_dim}.")
    return DecoderArchitecture(
        name=name,
        layers=_number(config, "num_hidden_layers", int),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=_number(config, "vocab_size", int),
        context=_number(config, "max_position_embeddings", int),
        rope_theta=_rope_theta(config),
        rope_scaling=_rope_scaling(config),
        norm_epsilon=_number(config, "rms_norm_eps", float),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
    )


def _name(config: Mapping[str, object]) -> str:
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if name not in SUPPORTED:
        served = f"{', '.join(SUPPORTED)}, and LlavaForConditionalGeneration with one of these"
        raise UnusableModel(f"The cpu runtime serves {served}; this model's architecture is {name}.")
    return str(name)


def _refuse_variants(config: Mapping[str, object]) -> None:
    if config.get("hidden_act", "silu") != "silu":
        raise UnusableModel(f"hidden_act must be silu; this model has {config['hidden_act']}.")
    refuse_quantized(config)
    if config.get("use_sliding_window") and config.get("sliding_window"):
        raise UnusableModel("Sliding-window attention is not supported.")
    layer_types = config.get("layer_types")
    if isinstance(layer_types, list) and set(layer_types) - {"full_attention"}:
        raise UnusableModel(f"layer_types must all be full_attention; found {sorted(set(map(str, layer_types)))}.")
    if config.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnusableModel("A partial_rotary_factor other than 1 is not supported.")


def _rope_theta(config: Mapping[str, object]) -> float:
    parameters = config.get("rope_parameters")
    if isinstance(parameters, dict) and "rope_theta" in parameters:
        return _number(parameters, "rope_theta", float)
    return _number(config, "rope_theta", float, default=_DEFAULT_THETA)


def _rope_scaling(config: Mapping[str, object]) -> RopeScaling | None:
    # Newer files say rope_parameters, older ones rope_theta beside rope_scaling; some say both.
    scaling = None
    for field in ("rope_parameters", "rope_scaling"):
        rope = config.get(field)
        if not isinstance(rope, dict):
            continue
        kind = rope.get("rope_type", rope.get("type"))
        if kind not in _ROPES:
            raise UnusableModel(f"Rope scaling of type {kind} ({field}) is not supported; default and llama3 are.")
        if kind == "llama3":
            scaling = RopeScaling(
                factor=_number(rope, "factor", float),
                low_freq=_number(rope, "low_freq_factor", float),
                high_freq=_number(rope, "high_freq_factor", float),
                original=_number(rope, "original_max_position_embeddings", int),
            )
            if scaling.low_freq >= scaling.high_freq:
                raise UnusableModel(f"config.json: low_freq_factor of {field} must be below high_freq_factor.")
    return scaling


def _number(config: Mapping[str, object], field: str, kind: type[T], *, default: T | None = None) -> T:
    value = config.get(field)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise UnusableModel(f"config.json: {field} must be a positive number; found {value!r}.")
    return kind(value)
