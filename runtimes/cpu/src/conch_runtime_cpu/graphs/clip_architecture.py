"""Reads what a `config.json` says about the towers of CLIP: that of pictures, which other models have too, and texts.

transformers leaves out of a nested config what has the default of its class, so those defaults stand here. What would
change the numbers and is not understood is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.config_json import refuse_quantized

Activation = Literal["Gelu", "QuickGelu"]

_MODEL_TYPE = "clip"
_ACTIVATIONS: Mapping[object, Activation] = {"gelu": "Gelu", "quick_gelu": "QuickGelu"}
_CHANNELS = 3
_HEADS = "num_attention_heads"
_VISION, _TEXT = "vision_config", "text_config"
_TYPES = {_VISION: "clip_vision_model", _TEXT: "clip_text_model"}
_VISION_DEFAULTS: Mapping[str, object] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": _CHANNELS,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}
_TEXT_DEFAULTS: Mapping[str, object] = {
    "hidden_size": 512,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "eos_token_id": 49407,
}


@dataclass(frozen=True, slots=True)
class ClipLayers:
    """The layers of one tower."""

    width: int
    layers: int
    heads: int
    activation: Activation
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class ClipTower(ClipLayers):
    """The tower of pictures."""

    side: int
    """Pixels in height and in width."""
    patch: int
    """Pixels in height and width of what becomes one position."""

    @property
    def patches(self) -> int:
        """Return into how many patches a picture is cut."""
        return (self.side // self.patch) ** 2


@dataclass(frozen=True, slots=True)
class ClipTexts(ClipLayers):
    """The tower of texts."""

    positions: int
    """The most tokens of a text."""
    end_id: int | None
    """The id whose position stands for the whole text; None: the highest id, as in the oldest folders."""


@dataclass(frozen=True, slots=True)
class ClipArchitecture:
    """A model that makes vectors of texts and of pictures."""

    pictures: ClipTower
    texts: ClipTexts


def is_clip(config: Mapping[str, object]) -> bool:
    """Return whether a parsed `config.json` is that of a CLIP model with both towers."""
    return config.get("model_type") == _MODEL_TYPE


def parse_clip_architecture(config: Mapping[str, object]) -> ClipArchitecture:
    """Return both towers that a parsed `config.json` describes; raises UnusableModel."""
    refuse_quantized(config)
    return ClipArchitecture(parse_clip_tower(config), _parse_texts(config))


def parse_clip_tower(config: Mapping[str, object]) -> ClipTower:
    """Return the tower of pictures that a parsed `config.json` describes; raises UnusableModel."""
    vision = _tower_config(config, _VISION, _VISION_DEFAULTS)
    if vision["num_channels"] != _CHANNELS:
        raise UnusableModel(f"num_channels of vision_config must be 3; this model has {vision['num_channels']}.")
    layers = _layers(vision, _VISION)
    side, patch = _whole(vision, "image_size", _VISION), _whole(vision, "patch_size", _VISION)
    if side < patch:
        raise UnusableModel(f"config.json: image_size ({side}) must be at least patch_size ({patch}).")
    return ClipTower(*layers, side=side, patch=patch)


def _parse_texts(config: Mapping[str, object]) -> ClipTexts:
    texts = _tower_config(config, _TEXT, _TEXT_DEFAULTS)
    end = texts["eos_token_id"]
    if isinstance(end, bool) or not isinstance(end, int) or end < 0:
        raise UnusableModel(f"config.json: eos_token_id of text_config must be an id; found {end!r}.")
    positions = _whole(texts, "max_position_embeddings", _TEXT)
    # transformers wrote 2 for every model once, whatever its vocabulary; it still reads it so.
    return ClipTexts(*_layers(texts, _TEXT), positions=positions, end_id=None if end == 2 else end)


def _tower_config(config: Mapping[str, object], name: str, defaults: Mapping[str, object]) -> Mapping[str, object]:
    """Return the config of one tower with its defaults; where old folders have two of them, the second is valid."""
    older = config.get(f"{name}_dict")
    found = {**defaults, **(older if isinstance(older, dict) else part_of(config, name))}
    if (kind := found.get("model_type", _TYPES[name])) != _TYPES[name]:
        what = "vision tower" if name == _VISION else "text tower"
        raise UnusableModel(f"The {what} must be a {_TYPES[name]}; {name} says {kind}.")
    if found["hidden_act"] not in _ACTIVATIONS:
        served = " or ".join(map(str, _ACTIVATIONS))
        raise UnusableModel(f"hidden_act of {name} must be {served}; this model has {found['hidden_act']}.")
    return found


def _layers(config: Mapping[str, object], name: str) -> tuple[int, int, int, Activation, float]:
    layers, width, heads = (_whole(config, field, name) for field in ("num_hidden_layers", "hidden_size", _HEADS))
    if width % heads:
        raise UnusableModel(f"config.json: hidden_size ({width}) of {name} must be a multiple of {_HEADS}.")
    return width, layers, heads, _ACTIVATIONS[config["hidden_act"]], positive(config, "layer_norm_eps")


def part_of(config: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return the config that stands inside another one under this name; raises UnusableModel."""
    part = config.get(name)
    if not isinstance(part, dict):
        raise UnusableModel(f"config.json: {name} must be an object; found {part!r}.")
    return part


def positive(config: Mapping[str, object], field: str, *, default: float | None = None) -> float:
    """Return a number above 0; raises UnusableModel for anything else."""
    value = config.get(field, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise UnusableModel(f"{field} must be a positive number; found {value!r}.")
    return float(value)


def _whole(config: Mapping[str, object], field: str, part: str) -> int:
    value = config[field]
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise UnusableModel(f"config.json: {field} of {part} must be a positive whole number; found {value!r}.")
    return value
