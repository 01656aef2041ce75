"""Turns a Hugging Face folder into an ONNX file once, and finds it again by content.

The cache's entries are named by a hash of everything that the graph depends on. An entry is written under a temporary
name and renamed when it is complete, so a half-written one is never used and two engines may convert at once.
"""

import hashlib
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture
from conch_runtime_cpu.graphs.decoder_graph import build_decoder_graph
from conch_runtime_cpu.graphs.encoder_architecture import read_encoder_architecture
from conch_runtime_cpu.graphs.encoder_graph import build_encoder_graph
from conch_runtime_cpu.graphs.weights import Weights

GRAPH_VERSION = "1"
"""Grows with every change of the graph, so that no old file is used."""
ENCODER_GRAPH_VERSION = "1"
"""Likewise, for the graphs of encoders."""
_MODEL, _DATA = "model.onnx", "model.onnx.data"
_INLINE_BYTES = 1024


def converted_decoder(folder: Path, architecture: DecoderArchitecture, quantization: Quantization, cache: Path) -> Path:
    """Return the ONNX file of a folder, converting it first when the cache has none; raises UnusableModel."""
    weights = Weights(folder)
    entry = cache / _content_key(folder, weights, f"{GRAPH_VERSION}\n{quantization}\n")
    if not entry.is_dir():
        _save(lambda: build_decoder_graph(architecture, weights, quantization), entry)
    return entry / _MODEL


def converted_encoder(folder: Path, cache: Path) -> Path:
    """Return the ONNX file of an encoder, converting it first when the cache has none; raises UnusableModel."""
    architecture = read_encoder_architecture(folder)
    weights = Weights(folder)
    entry = cache / _content_key(folder, weights, f"encoder {ENCODER_GRAPH_VERSION}\n")
    if not entry.is_dir():
        _save(lambda: build_encoder_graph(architecture, weights), entry)
    return entry / _MODEL


def _content_key(folder: Path, weights: Weights, made_as: str) -> str:
    key = hashlib.sha256(made_as.encode())
    for path in (folder / "config.json", *weights.files):
        with path.open("rb") as file:
            key.update(path.name.encode() + b"\n" + hashlib.file_digest(file, "sha256").digest())
    return key.hexdigest()[:32]


def _save(build: Callable[[], onnx.ModelProto], entry: Path) -> None:
    draft = entry.with_name(f"{entry.name}.{secrets.token_hex(4)}.draft")
    draft.mkdir(parents=True)
    try:
        onnx.save_model(
            build(),
            str(draft / _MODEL),
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=_DATA,
            size_threshold=_INLINE_BYTES,
        )
        try:
            draft.rename(entry)
        except OSError:
            if not entry.is_dir():  # else another engine was faster, with the same content
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
