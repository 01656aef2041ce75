"""Reads the `config.json` of a Whisper folder, and refuses what the graphs could not compute exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.config_json import read_config, refuse_quantized

SUPPORTED = ("WhisperForConditionalGeneration",)
_HEAD_DIM_MULTIPLE = 8
_MEDIAN_FILTER = 7
"""The width where config.json names none, as in transformers."""


@dataclass(frozen=True, slots=True)
class WhisperArchitecture:
    """The shape of a Whisper model: an encoder of sound, and a decoder that looks at it."""

    width: int
    encoder_layers: int
    encoder_heads: int
    decoder_layers: int
    decoder_heads: int
    mels: int
    positions: int
    """Of the encoder; two frames of the spectrogram make one."""
    context: int
    """The most ids of the decoder, prompt and answer."""
    vocabulary: int
    tied_embeddings: bool
    median_filter: int
    """The width of the filter over attention from which the times of words are read."""

    @property
    def head_dim(self) -> int:
        """Return the size of one of the decoder's heads."""
        return self.width // self.decoder_heads

    @property
    def cross_bytes(self) -> int:
        """Return the memory that the keys and values of one window's sound take."""
        return 2 * 4 * self.decoder_layers * self.width * self.positions

    def slot_bytes(self, context: int) -> int:
        """Return the memory that one window takes while it is decoded, with a decoder of so many ids."""
        return self.cross_bytes + 2 * 4 * self.decoder_layers * self.width * context


def read_whisper_architecture(folder: Path) -> WhisperArchitecture:
    """Read `config.json` of a Hugging Face folder; raises UnusableModel."""
    return parse_whisper_architecture(read_config(folder))


def parse_whisper_architecture(config: Mapping[str, object]) -> WhisperArchitecture:
    """Return the architecture that a parsed `config.json` describes; raises UnusableModel."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if name not in SUPPORTED:
        raise UnusableModel(f"Of speech the cpu runtime serves {SUPPORTED[0]}; this model's architecture is {name}.")
    _refuse_variants(config)
    width = _whole(config, "d_model")
    architecture = WhisperArchitecture(
        width=width,
        encoder_layers=_whole(config, "encoder_layers"),
        encoder_heads=_whole(config, "encoder_attention_heads"),
        decoder_layers=_whole(config, "decoder_layers"),
        decoder_heads=_whole(config, "decoder_attention_heads"),
        mels=_whole(config, "num_mel_bins"),
        positions=_whole(config, "max_source_positions"),
        context=_whole(config, "max_target_positions"),
        vocabulary=_whole(config, "vocab_size"),
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
        median_filter=_whole(config, "median_filter_width", default=_MEDIAN_FILTER),
    )
    for field in ("encoder_attention_heads", "decoder_attention_heads"):
        if width % (_whole(config, field) * _HEAD_DIM_MULTIPLE):
            raise UnusableModel(
                f"config.json: d_model ({width}) divided by {field} must be a multiple of {_HEAD_DIM_MULTIPLE}."
            )
    if not architecture.median_filter % 2:
        raise UnusableModel(f"config.json: median_filter_width must be odd; found {architecture.median_filter}.")
    return architecture


def _refuse_variants(config: Mapping[str, object]) -> None:
    if config.get("activation_function", "gelu") != "gelu":
        raise UnusableModel(f"activation_function must be gelu; this model has {config['activation_function']}.")
    if config.get("scale_embedding"):
        raise UnusableModel("A scale_embedding is not supported.")
    refuse_quantized(config)


def _whole(config: Mapping[str, object], field: str, *, default: int | None = None) -> int:
    value = config.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise UnusableModel(f"config.json: {field} must be a positive whole number; found {value!r}.")
    return value
