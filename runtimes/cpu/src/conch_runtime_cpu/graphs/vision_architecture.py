"""Reads what the `config.json` of a LLaVA-like folder says about its vision tower, its projector and its text model.

transformers leaves out of a nested config what has the default of its class, so those defaults stand here. As with
`decoder_architecture`, what would change the numbers and is not understood is refused.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.clip_architecture import ClipTower, parse_clip_tower, part_of, positive
from conch_runtime_cpu.graphs.config_json import read_json, refuse_quantized
from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture, parse_decoder_architecture

ARCHITECTURE = "LlavaForConditionalGeneration"
_MODEL_TYPE = "llava"
_STRATEGIES = ("default", "full")
_CHANNELS = 3
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""CLIP's, as its image processor has them where the folder names no others."""
_TEXT_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_TEXT_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
    },
    "qwen2": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
    },
    "qwen3": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
    },
}


@dataclass(frozen=True, slots=True)
class Normalisation:
    """How bytes become what the tower was trained on: times `scale`, plus `shift`, for red, green and blue."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class VisionArchitecture(ClipTower):
    """The shape of a CLIP vision tower, and what of it the projector gets."""

    taken: tuple[int, ...]
    """After how many layers the features are taken; several are put side by side."""
    keeps_class: bool
    """Whether the position that stands for the whole picture is a feature too."""
    image_token: int
    """The id in the place of each feature in a prompt."""
    normalisation: Normalisation

    @property
    def features(self) -> int:
        """Return how many features a picture has."""
        return self.patches + self.keeps_class


def sees_pictures(config: Mapping[str, object]) -> bool:
    """Return whether a parsed `config.json` is that of a LLaVA-like model."""
    return config.get("model_type") == _MODEL_TYPE or config.get("architectures") == [ARCHITECTURE]


def text_config(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return the `config.json` that the text model would have in a folder of its own; raises UnusableModel."""
    refuse_quantized(config)
    text = part_of(config, "text_config")
    kind = text.get("model_type", "llama")
    if kind not in _TEXT_ARCHITECTURES:
        served = ", ".join(_TEXT_ARCHITECTURES)
        raise UnusableModel(f"Of text models that see, the cpu runtime serves {served}; text_config says {kind}.")
    said = {name: value for name, value in text.items() if value is not None}
    tied = bool(text.get("tie_word_embeddings")) or bool(config.get("tie_word_embeddings"))
    named = {"architectures": [_TEXT_ARCHITECTURES[str(kind)]], "tie_word_embeddings": tied}
    return {**_TEXT_DEFAULTS[str(kind)], **said, **named}


def read_seeing_architecture(
    folder: Path, config: Mapping[str, object]
) -> tuple[DecoderArchitecture, VisionArchitecture]:
    """Return the text model and the tower of a folder whose `config.json` is parsed; raises UnusableModel."""
    text, vision = parse_decoder_architecture(text_config(config)), read_vision_architecture(folder, config)
    if vision.image_token >= text.vocabulary:
        raise UnusableModel(
            f"config.json: image_token_index ({vision.image_token}) must be below vocab_size ({text.vocabulary})."
        )
    return text, vision


def read_vision_architecture(folder: Path, config: Mapping[str, object]) -> VisionArchitecture:
    """Return the tower of a folder whose `config.json` is parsed; raises UnusableModel."""
    return parse_vision_architecture(config, _image_processor(folder))


def parse_vision_architecture(config: Mapping[str, object], processor: Mapping[str, object]) -> VisionArchitecture:
    """Return the tower that the configs of model and image processor describe; raises UnusableModel."""
    tower = parse_clip_tower(config)
    _refuse_variants(config)
    return VisionArchitecture(
        **asdict(tower),
        taken=_taken_layers(config.get("vision_feature_layer", -2), tower.layers),
        keeps_class=config.get("vision_feature_select_strategy", "default") == "full",
        image_token=_image_token(config),
        normalisation=_normalisation(processor),
    )


def _refuse_variants(config: Mapping[str, object]) -> None:
    if (activation := config.get("projector_hidden_act", "gelu")) != "gelu":
        raise UnusableModel(f"projector_hidden_act must be gelu; this model has {activation}.")
    if (strategy := config.get("vision_feature_select_strategy", "default")) not in _STRATEGIES:
        served = " or ".join(_STRATEGIES)
        raise UnusableModel(f"vision_feature_select_strategy must be {served}; this model has {strategy}.")


def _taken_layers(value: object, layers: int) -> tuple[int, ...]:
    """Return after how many layers features are taken; a negative number counts from behind, -1 is after the last."""
    numbers = value if isinstance(value, list) else [value]
    taken = []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not -layers - 1 <= number <= layers:
            raise UnusableModel(
                f"config.json: vision_feature_layer must name layers from {-layers - 1} to {layers}; found {value!r}."
            )
        taken.append(number % (layers + 1))
    if not taken:
        raise UnusableModel("config.json: vision_feature_layer names no layer.")
    return tuple(taken)


def _image_token(config: Mapping[str, object]) -> int:
    token = config.get("image_token_index", config.get("image_token_id"))
    if isinstance(token, bool) or not isinstance(token, int) or token < 0:
        raise UnusableModel(f"config.json: image_token_index must be an id; found {token!r}.")
    return token


def _image_processor(folder: Path) -> Mapping[str, object]:
    """Return the config of the folder's image processor, which has a file of its own or is part of the processor's."""
    own, whole = folder / "preprocessor_config.json", folder / "processor_config.json"
    if own.is_file():
        return read_json(own)
    if whole.is_file():
        part = read_json(whole).get("image_processor")
        if isinstance(part, dict):
            return part
    raise UnusableModel(f"{folder} has no preprocessor_config.json, which says how pictures are normalised.")


def _normalisation(processor: Mapping[str, object]) -> Normalisation:
    factor = positive(processor, "rescale_factor", default=1 / 255) if processor.get("do_rescale", True) else 1.0
    if not processor.get("do_normalize", True):
        return Normalisation((factor,) * _CHANNELS, (0.0,) * _CHANNELS)
    mean, std = _channels(processor, "image_mean", _MEAN), _channels(processor, "image_std", _STD)
    if min(std) <= 0:
        raise UnusableModel(f"preprocessor_config.json: image_std must be above 0; found {list(std)}.")
    return Normalisation(
        tuple(factor / one for one in std), tuple(-middle / one for middle, one in zip(mean, std, strict=True))
    )


def _channels(processor: Mapping[str, object], field: str, default: tuple[float, ...]) -> tuple[float, ...]:
    value = processor.get(field)
    if value is None:
        return default
    numbers = value if isinstance(value, list) else []
    if len(numbers) != _CHANNELS or not all(isinstance(one, (int, float)) for one in numbers):
        raise UnusableModel(f"preprocessor_config.json: {field} must be three numbers; found {value!r}.")
    return tuple(map(float, numbers))
