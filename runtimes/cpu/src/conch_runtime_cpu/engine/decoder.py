"""Runs the graph: one row of a dense key-value cache for each sequence, decoded together.

The scheduler decides which sequence has which row. Rows in use are always the first ones, so a decoding step binds a
prefix of the cache, and a prefill binds one row in place. Nothing is copied in or out: every input and output is bound
to memory that this module owns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch_runtime_cpu.engine.onnx_session import open_session
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture
from conch_runtime_cpu.graphs.decoder_graph import FEATURE_ROWS, FEATURES, kv_names

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]
_NO_ROW = -1


@dataclass(frozen=True, slots=True)
class ShownFeatures:
    """What takes the place of the embeddings of some of a prompt's ids."""

    features: NDArray[np.float32]
    """[F, width]"""
    rows: Ids
    """For each id the row among the features, or -1."""

    @classmethod
    def among(cls, length: int, starts: Sequence[int], features: Sequence[NDArray[np.float32]]) -> "ShownFeatures":
        """Return the features of all pictures of so many ids, where the ids of each begin there."""
        rows = np.full(length, _NO_ROW, np.int64)
        first = 0
        for start, found in zip(starts, features, strict=True):
            rows[start : start + len(found)] = np.arange(first, first + len(found))
            first += len(found)
        return cls(np.concatenate(features), rows)

    def part(self, start: int, end: int) -> "ShownFeatures":
        """Return what belongs to some of the ids."""
        return ShownFeatures(self.features, self.rows[start:end])


class OnnxDecoder:
    """A loaded model with its key-value cache."""

    def __init__(
        self, model: Path, architecture: DecoderArchitecture, slots: int, *, feature_width: int | None = None
    ) -> None:
        """Load a model; the features of one that sees have a width."""
        self.slots = slots
        self.vocabulary = architecture.vocabulary
        self.context = architecture.context
        self.logits: Logits = np.zeros((slots, architecture.vocabulary), np.float32)
        """What the last calls predicted, by row."""
        self._session = open_session(model, threads=1)
        self._past = kv_names("past", architecture.layers)
        self._present = kv_names("present", architecture.layers)
        self._row_shape = (architecture.kv_heads, architecture.context, architecture.head_dim)
        self._cache = [np.zeros((slots, *self._row_shape), np.float32) for _ in self._past]
        self._tokens: Ids = np.zeros((slots, 1), np.int64)
        self._lengths = np.zeros(slots, np.int32)
        self._longest = np.zeros(1, np.int32)
        self._first = np.zeros((slots, 1, 1), np.int64)
        self._nothing_shown = None if feature_width is None else _nothing(feature_width, slots)
        self._decodings: dict[int, onnxruntime.IOBinding] = {}
        self._prefills: dict[int, onnxruntime.IOBinding] = {}

    def warm_up(self) -> None:
        """Compute once, so that a graph that cannot run fails before the first request."""
        self.prefill(0, np.zeros(2, np.int64), 0)
        self.decode([0], [3])

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        """Append one token to each of the first rows; `lengths` are the rows' lengths with it."""
        count = len(tokens)
        self._tokens[:count, 0] = tokens
        self._lengths[:count] = lengths
        self._lengths[:count] -= 1
        self._longest[0] = max(lengths)
        binding = self._decodings.get(count)
        if binding is None:
            binding = self._decodings[count] = self._bind_decoding(count)
        self._session.run_with_iobinding(binding)

    def prefill(self, row: int, ids: Ids, start: int, shown: ShownFeatures | None = None) -> None:
        """Append ids to a row that holds `start` tokens, and predict what follows the last one."""
        keep = np.array([[[len(ids) - 1]]], np.int64)
        self._prefill(row, ids, start, shown, keep, self.logits[row].reshape(1, 1, -1))

    def prefill_keeping_all(self, row: int, ids: Ids, start: int, shown: ShownFeatures | None = None) -> Logits:
        """Do the same, and return the prediction after every id."""
        everything = np.empty((len(ids), self.vocabulary), np.float32)
        keep = np.arange(len(ids), dtype=np.int64).reshape(1, -1, 1)
        self._prefill(row, ids, start, shown, keep, everything.reshape(1, *everything.shape))
        self.logits[row] = everything[-1]
        return everything

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's first tokens over another row."""
        for layer in self._cache:
            layer[target, :, :length] = layer[source, :, :length]

    def _prefill(self, row: int, ids: Ids, start: int, shown: ShownFeatures | None, keep: Ids, output: Logits) -> None:
        binding = self._prefills.get(row)
        if binding is None:
            binding = self._prefills[row] = self._session.io_binding()
            self._bind_cache(binding, row, 1)
        length = start + len(ids)
        binding.bind_cpu_input("input_ids", np.ascontiguousarray(ids, np.int64).reshape(1, -1))
        binding.bind_cpu_input("seqlens_k", np.array([length - 1], np.int32))
        binding.bind_cpu_input("total_len", np.array([length], np.int32))
        binding.bind_cpu_input("keep", keep)
        if self._nothing_shown is not None:
            one = shown or ShownFeatures(self._nothing_shown.features, np.full(len(ids), _NO_ROW, np.int64))
            binding.bind_cpu_input(FEATURES, np.ascontiguousarray(one.features))
            binding.bind_cpu_input(FEATURE_ROWS, np.ascontiguousarray(one.rows).reshape(1, -1))
        binding.bind_output("logits", "cpu", 0, np.float32, output.shape, output.ctypes.data)
        self._session.run_with_iobinding(binding)
        if self._nothing_shown is not None:
            binding.bind_cpu_input(FEATURES, self._nothing_shown.features)  # else they stay until the row's next prompt

    def _bind_decoding(self, count: int) -> onnxruntime.IOBinding:
        binding = self._session.io_binding()
        inputs: dict[str, NDArray[np.generic]] = {
            "input_ids": self._tokens[:count],
            "seqlens_k": self._lengths[:count],
            "total_len": self._longest,
            "keep": self._first[:count],
        }
        if self._nothing_shown is not None:
            inputs |= {FEATURES: self._nothing_shown.features, FEATURE_ROWS: self._nothing_shown.rows[:count]}
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        shape = (count, 1, self.vocabulary)
        binding.bind_output("logits", "cpu", 0, np.float32, shape, self.logits.ctypes.data)
        self._bind_cache(binding, 0, count)
        return binding

    def _bind_cache(self, binding: onnxruntime.IOBinding, row: int, count: int) -> None:
        shape = (count, *self._row_shape)
        for past, present, layer in zip(self._past, self._present, self._cache, strict=True):
            memory = layer[row:].ctypes.data
            binding.bind_input(past, "cpu", 0, np.float32, shape, memory)
            binding.bind_output(present, "cpu", 0, np.float32, shape, memory)


def _nothing(width: int, slots: int) -> ShownFeatures:
    """Return what a step without pictures is given: one row that nobody takes."""
    return ShownFeatures(np.zeros((1, width), np.float32), np.full((slots, 1), _NO_ROW, np.int64))


def slots_within(architecture: DecoderArchitecture, wanted: int, kv_cache_bytes: int) -> int:
    """Return how many sequences fit the cache's limit, at most `wanted`; raises UnusableModel when none does."""
    one = architecture.kv_bytes_per_sequence
    fitting = min(wanted, kv_cache_bytes // one)
    if fitting < 1:
        longest = kv_cache_bytes // architecture.kv_bytes_per_token
        raise UnusableModel(
            f"One sequence of {architecture.context} tokens needs {one} bytes of key-value cache, and the limit is "
            f"{kv_cache_bytes}: set generation.maxLength to at most {longest}."
        )
    return fitting
