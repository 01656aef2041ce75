"""The model as a folder of Hugging Face."""

import json
from pathlib import Path

from transformers import WhisperForConditionalGeneration

_KEPT = (
    *("merges.txt", "preprocessor_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"),
    *("vocab.json", "config.json"),
)


def write_folder(network: WhisperForConditionalGeneration, start: Path, folder: Path) -> None:
    """Write weights and settings; vocabulary and sizes are those of the model it began with."""
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)
    for name in _KEPT:
        (folder / name).write_bytes((start / name).read_bytes())
    settings = json.loads((start / "generation_config.json").read_text())
    settings["max_initial_timestamp_index"] = network.config.max_source_positions
    (folder / "generation_config.json").write_text(json.dumps(settings, indent=2) + "\n")
