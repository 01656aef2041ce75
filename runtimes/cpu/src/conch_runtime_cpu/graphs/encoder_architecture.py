"""Reads the `config.json` of a BERT-family encoder, and refuses what the graph could not compute exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.config_json import read_config, refuse_quantized

_FAMILIES = {"Bert": False, "Roberta": True, "XLMRoberta": True, "Camembert": True}
"""Each family, and whether its positions count from behind the padding id."""
_HEADS = {"Model": False, "ForSequenceClassification": True}
SUPPORTED = tuple(f"{family}{head}" for family in _FAMILIES for head in _HEADS)


@dataclass(frozen=True, slots=True)
class EncoderArchitecture:
    """The shape of a BERT-family encoder, with or without a classification head."""

    family: str
    classifies: bool
    """Whether it ends with logits for the whole text, not with a hidden state for each token."""
    layers: int
    heads: int
    norm_epsilon: float
    first_position: int
    """The position of the first token; the others follow, except for padding."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return what the names of the encoder's tensors may begin with, the likeliest first."""
        own = "bert." if self.family == "Bert" else "roberta."
        return (own, "") if self.classifies else ("", own)


def read_encoder_architecture(folder: Path) -> EncoderArchitecture:
    """Read `config.json` of a Hugging Face folder; raises UnusableModel."""
    return parse_encoder_architecture(read_config(folder))


def parse_encoder_architecture(config: Mapping[str, object]) -> EncoderArchitecture:
    """Return the architecture that a parsed `config.json` describes; raises UnusableModel."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if name not in SUPPORTED:
        raise UnusableModel(
            f"The cpu runtime converts {', '.join(SUPPORTED)}; this model's architecture is {name}. "
            "Put its model.onnx into the folder."
        )
    _refuse_variants(config)
    family = next(each for each in sorted(_FAMILIES, key=len, reverse=True) if str(name).startswith(each))
    padding = config.get("pad_token_id", 1)
    return EncoderArchitecture(
        family=family,
        classifies=_HEADS[str(name).removeprefix(family)],
        layers=_whole(config, "num_hidden_layers"),
        heads=_whole(config, "num_attention_heads"),
        norm_epsilon=_epsilon(config),
        first_position=(padding if isinstance(padding, int) else 1) + 1 if _FAMILIES[family] else 0,
    )


def _refuse_variants(config: Mapping[str, object]) -> None:
    if config.get("hidden_act", "gelu") != "gelu":
        raise UnusableModel(f"hidden_act must be gelu; this model has {config['hidden_act']}.")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise UnusableModel(f"position_embedding_type must be absolute; found {config['position_embedding_type']}.")
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise UnusableModel("The model is a decoder (is_decoder, add_cross_attention); only encoders are served.")
    refuse_quantized(config)


def _whole(config: Mapping[str, object], field: str) -> int:
    value = config.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise UnusableModel(f"config.json: {field} must be a positive whole number; found {value!r}.")
    return value


def _epsilon(config: Mapping[str, object]) -> float:
    value = config.get("layer_norm_eps", 1e-12)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise UnusableModel(f"config.json: layer_norm_eps must be a positive number; found {value!r}.")
    return float(value)
