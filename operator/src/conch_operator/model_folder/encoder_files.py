"""Reads what a folder says about an encoder: sentence-transformers' files, and a classifier's labels.

Blocks on the disk, like `reader`, which calls it.
"""

from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.dialects.encoder import ONNX_FILES
from conch_contracts.records import Pooling
from conch_operator.model_folder.errors import SourceError
from conch_operator.model_folder.json_files import Json, read_object, read_objects
from conch_operator.model_folder.vision_files import (
    PICTURE_SETTINGS,
    encodes_pictures,
    has_tower,
    sees_pictures,
    text_positions,
)
from conch_operator.state import EncoderFacts

SENTENCE_FILES = ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
"""Files beside the tokenizer's that say how an encoder is used."""

_POOLING_MODES = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
}
_FROM_WEIGHTS = frozenset({"Transformer", "Pooling", "Normalize", "Dropout"})
_CLASSIFIER = "ForSequenceClassification"
_UNNAMED = ("LABEL_0", "LABEL_1")
_PADDED_POSITIONS = ("roberta", "xlm-roberta", "camembert")
"""Model types whose positions count from behind the padding id, so that two of them are never used."""


def read_encoder(folder: Path, config: Json) -> EncoderFacts:
    """Return what the folder says; raises SourceError."""
    modules = read_objects(folder / "modules.json")
    kinds = [_kind(module) for module in modules]
    return EncoderFacts(
        pooling=_pooling(folder, modules),
        normalize="Normalize" in kinds if modules else None,
        matryoshka=bool(config.get("is_matryoshka") or config.get("matryoshka_dimensions")),
        labels=_labels(config),
        several_labels=config.get("problem_type") == "multi_label_classification",
        max_tokens=_max_tokens(folder, config),
        sees=_encodes_pictures(folder, config),
    )


def check_modules(folder: Path) -> None:
    """Raise SourceError where modules.json asks for a layer that is not computed from weights, such as Dense."""
    kinds = [_kind(module) for module in read_objects(folder / "modules.json")]
    others = sorted(set(kinds) - _FROM_WEIGHTS)
    if others:
        message = (
            f"{folder}/modules.json asks for {' and '.join(others)}, which is not computed from weights. Export the "
            f"model with it as {ONNX_FILES[0]} with the output sentence_embedding."
        )
        raise SourceError(Reason.FILES_INVALID, message)


def check_towers(folder: Path, config: Json) -> None:
    """Raise SourceError where a model of texts and pictures is none that is computed, or not in a form that is."""
    if not has_tower(config):
        return
    computed = _is_computed(config)
    if not computed and not onnx_files(folder):
        message = (
            f"{folder}/config.json describes a model of the type {config.get('model_type')}, which sees. Vectors of "
            "pictures are computed with two types alone: use a CLIP model for a text or a picture by itself, or a "
            "LLaVA model for messages with pictures in them."
        )
        raise SourceError(Reason.FILES_INVALID, message)
    if computed and not list(folder.glob("*.safetensors")):
        message = (
            f"{folder} has no *.safetensors file. A model of the type {config.get('model_type')} is computed from its "
            "weights, not from ONNX: put its safetensors there."
        )
        raise SourceError(Reason.FILES_MISSING, message)


def onnx_files(folder: Path) -> list[Path]:
    """Return the folder's ONNX files."""
    return [folder / name for name in ONNX_FILES if (folder / name).is_file()]


def _kind(module: Json) -> str:
    return str(module.get("type", "")).rsplit(".", 1)[-1]


def _pooling(folder: Path, modules: list[Json]) -> Pooling | None:
    paths = [str(module.get("path")) for module in modules if str(module.get("type", "")).endswith(".Pooling")]
    path = folder / Path(paths[0] if paths else "1_Pooling").name / "config.json"
    config = read_object(path) if path.is_file() else None
    if config is None:
        return None
    chosen = [mode for mode, on in config.items() if mode.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in _POOLING_MODES:
        asked = " and ".join(chosen) or "no pooling"
        message = f"{path} asks for {asked}; one of {', '.join(_POOLING_MODES)} is supported."
        raise SourceError(Reason.FILES_INVALID, message)
    return _POOLING_MODES[chosen[0]]


def _labels(config: Json) -> tuple[str, ...]:
    """Return the names of a classifier's classes; transformers writes none where there are two without names."""
    labels = config.get("id2label")
    if not isinstance(labels, dict):
        heads = config.get("architectures")
        classifies = isinstance(heads, list) and any(str(head).endswith(_CLASSIFIER) for head in heads)
        return _UNNAMED if classifies else ()
    numbered = {int(str(number)): str(label) for number, label in labels.items() if str(number).isdecimal()}
    return tuple(numbered[number] for number in sorted(numbered))


def _is_computed(config: Json) -> bool:
    """Tell whether a config.json describes a model that sees, of which vectors are computed from weights."""
    return encodes_pictures(config) or sees_pictures(config)


def _encodes_pictures(folder: Path, config: Json) -> bool:
    if not encodes_pictures(config):
        return False
    if not any((folder / name).is_file() for name in PICTURE_SETTINGS):
        message = (
            f"{folder} has no {PICTURE_SETTINGS[0]}, which says how pictures are made ready. Put the model's there."
        )
        raise SourceError(Reason.FILES_MISSING, message)
    return True


def _max_tokens(folder: Path, config: Json) -> int | None:
    path = folder / "sentence_bert_config.json"
    longest = (read_object(path) or {}).get("max_seq_length") if path.is_file() else None
    positions = text_positions(config) if _is_computed(config) else config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in _PADDED_POSITIONS:
        padding = config.get("pad_token_id", 1)
        positions -= (padding if isinstance(padding, int) else 1) + 1
    bounds = [bound for bound in (longest, positions) if isinstance(bound, int) and bound > 0]
    return min(bounds, default=None)
