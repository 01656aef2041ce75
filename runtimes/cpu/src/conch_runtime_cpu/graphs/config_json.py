"""Reads the JSON files of a Hugging Face folder; what they mean is up to the module of each architecture."""

import json
from collections.abc import Mapping
from pathlib import Path

from conch_runtime_cpu.errors import UnusableModel


def read_config(folder: Path) -> Mapping[str, object]:
    """Return the fields of a folder's `config.json`; raises UnusableModel."""
    return read_json(folder / "config.json")


def read_json(path: Path) -> Mapping[str, object]:
    """Return the fields of a file that holds one JSON object; raises UnusableModel."""
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnusableModel(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise UnusableModel(f"{path} must hold a JSON object.")
    return config


def refuse_quantized(config: Mapping[str, object]) -> None:
    """Raise UnusableModel for a parsed `config.json` of weights that are quantized."""
    if config.get("quantization_config"):
        raise UnusableModel("The weights are quantized already; give the cpu runtime the original weights.")
