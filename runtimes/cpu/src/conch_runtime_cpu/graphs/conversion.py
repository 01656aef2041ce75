"""Turns a Hugging Face folder into an ONNX file once, and finds it again by content.

The cache's entries are named by a hash of everything that the graph depends on. An entry is written under a temporary
name and renamed when it is complete, so a half-written one is never used and two engines may convert at once.
"""

import hashlib
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.graphs.clip_architecture import ClipArchitecture
from conch_runtime_cpu.graphs.clip_graphs import build_clip_picture_graph, build_clip_text_graph
from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture
from conch_runtime_cpu.graphs.decoder_graph import build_decoder_graph, build_hidden_state_graph
from conch_runtime_cpu.graphs.encoder_architecture import read_encoder_architecture
from conch_runtime_cpu.graphs.encoder_graph import build_encoder_graph
from conch_runtime_cpu.graphs.llava_weights import llava_weights
from conch_runtime_cpu.graphs.vision_architecture import VisionArchitecture
from conch_runtime_cpu.graphs.vision_graph import build_vision_graph
from conch_runtime_cpu.graphs.weights import Weights
from conch_runtime_cpu.graphs.whisper_architecture import WhisperArchitecture
from conch_runtime_cpu.graphs.whisper_decoder_graph import build_whisper_decoder_graph
from conch_runtime_cpu.graphs.whisper_encoder_graph import build_whisper_encoder_graph

GRAPH_VERSION = "1"
"""Grows with every change of the graph, so that no old file is used."""
ENCODER_GRAPH_VERSION = "1"
"""Likewise, for the graphs of encoders."""
WHISPER_GRAPH_VERSION = "1"
"""Likewise, for the two graphs of Whisper."""
VISION_GRAPH_VERSION = "1"
"""Likewise, for what a model that sees has more than others: its vision graph, and two inputs of its decoder."""
CLIP_GRAPH_VERSION = "1"
"""Likewise, for the two graphs of CLIP."""
_MODEL = "model.onnx"
_VISION = "vision.onnx"
_TEXTS, _PICTURES = "texts.onnx", "pictures.onnx"
_WHISPER_ENCODER, _WHISPER_DECODER = "encoder.onnx", "decoder.onnx"
_INLINE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class WhisperFiles:
    """The two ONNX files of one Whisper folder."""

    encoder: Path
    decoder: Path


@dataclass(frozen=True, slots=True)
class SeeingFiles:
    """The two ONNX files of one folder of a language model that sees, whatever is made with it."""

    decoder: Path
    vision: Path


@dataclass(frozen=True, slots=True)
class ClipFiles:
    """The two ONNX files of one CLIP folder."""

    texts: Path
    pictures: Path


def converted_decoder(folder: Path, architecture: DecoderArchitecture, quantization: Quantization, cache: Path) -> Path:
    """Return the ONNX file of a folder, converting it first when the cache has none; raises UnusableModel."""
    weights = Weights(folder)
    entry = cache / _content_key(folder, weights, f"{GRAPH_VERSION}\n{quantization}\n")
    if not entry.is_dir():
        _save({_MODEL: lambda: build_decoder_graph(architecture, weights, quantization)}, entry)
    return entry / _MODEL


def converted_seeing_decoder(
    folder: Path, text: DecoderArchitecture, vision: VisionArchitecture, quantization: Quantization, cache: Path
) -> SeeingFiles:
    """Return the ONNX files of a LLaVA-like folder, converting it first if need be; raises UnusableModel."""
    weights = llava_weights(folder)
    made_as = f"seeing {GRAPH_VERSION} {VISION_GRAPH_VERSION}\n{quantization}\n{vision}\n"
    entry = cache / _content_key(folder, weights, made_as)
    if not entry.is_dir():
        graphs = {
            _MODEL: lambda: build_decoder_graph(text, weights, quantization, sees=True),
            _VISION: lambda: build_vision_graph(vision, weights),
        }
        _save(graphs, entry)
    return SeeingFiles(entry / _MODEL, entry / _VISION)


def converted_seeing_encoder(
    folder: Path, text: DecoderArchitecture, vision: VisionArchitecture, cache: Path
) -> SeeingFiles:
    """Return the ONNX files of a LLaVA-like folder of which vectors are made; raises UnusableModel."""
    weights = llava_weights(folder)
    entry = cache / _content_key(folder, weights, f"seeing encoder {GRAPH_VERSION} {VISION_GRAPH_VERSION}\n{vision}\n")
    if not entry.is_dir():
        graphs = {
            _MODEL: lambda: build_hidden_state_graph(text, weights),
            _VISION: lambda: build_vision_graph(vision, weights),
        }
        _save(graphs, entry)
    return SeeingFiles(entry / _MODEL, entry / _VISION)


def converted_encoder(folder: Path, cache: Path) -> Path:
    """Return the ONNX file of an encoder, converting it first when the cache has none; raises UnusableModel."""
    architecture = read_encoder_architecture(folder)
    weights = Weights(folder)
    entry = cache / _content_key(folder, weights, f"encoder {ENCODER_GRAPH_VERSION}\n")
    if not entry.is_dir():
        _save({_MODEL: lambda: build_encoder_graph(architecture, weights)}, entry)
    return entry / _MODEL


def converted_clip(folder: Path, architecture: ClipArchitecture, cache: Path) -> ClipFiles:
    """Return the ONNX files of a CLIP folder, converting it first when the cache has none; raises UnusableModel."""
    weights = Weights(folder)
    entry = cache / _content_key(folder, weights, f"clip {CLIP_GRAPH_VERSION}\n")
    if not entry.is_dir():
        graphs = {
            _TEXTS: lambda: build_clip_text_graph(architecture.texts, weights),
            _PICTURES: lambda: build_clip_picture_graph(architecture.pictures, weights),
        }
        _save(graphs, entry)
    return ClipFiles(entry / _TEXTS, entry / _PICTURES)


def converted_whisper(folder: Path, architecture: WhisperArchitecture, cache: Path) -> WhisperFiles:
    """Return the ONNX files of a Whisper folder, converting it first when the cache has none; raises UnusableModel."""
    weights = Weights(folder)
    entry = cache / _content_key(folder, weights, f"whisper {WHISPER_GRAPH_VERSION}\n")
    if not entry.is_dir():
        graphs = {
            _WHISPER_ENCODER: lambda: build_whisper_encoder_graph(architecture, weights),
            _WHISPER_DECODER: lambda: build_whisper_decoder_graph(architecture, weights),
        }
        _save(graphs, entry)
    return WhisperFiles(entry / _WHISPER_ENCODER, entry / _WHISPER_DECODER)


def _content_key(folder: Path, weights: Weights, made_as: str) -> str:
    key = hashlib.sha256(made_as.encode())
    for path in (folder / "config.json", *weights.files):
        with path.open("rb") as file:
            key.update(path.name.encode() + b"\n" + hashlib.file_digest(file, "sha256").digest())
    return key.hexdigest()[:32]


def _save(graphs: Mapping[str, Callable[[], onnx.ModelProto]], entry: Path) -> None:
    draft = entry.with_name(f"{entry.name}.{secrets.token_hex(4)}.draft")
    draft.mkdir(parents=True)
    try:
        for name, build in graphs.items():
            onnx.save_model(
                build(),
                str(draft / name),
                save_as_external_data=True,
                all_tensors_to_one_file=True,
                location=f"{name}.data",
                size_threshold=_INLINE_BYTES,
            )
        try:
            draft.rename(entry)
        except OSError:
            if not entry.is_dir():  # else another engine was faster, with the same content
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
