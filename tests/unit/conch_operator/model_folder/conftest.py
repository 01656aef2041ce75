"""A small model's folder."""

import json
from pathlib import Path

import pytest

TOKENIZER = {
    "added_tokens": [{"id": 9, "content": "<end>"}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<end>": 9}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "config.json").write_text(json.dumps({"vocab_size": 12, "max_position_embeddings": 64}))
    (folder / "model.safetensors").write_bytes(b"")
    return folder
