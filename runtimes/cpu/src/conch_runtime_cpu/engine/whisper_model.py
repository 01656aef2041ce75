"""Runs Whisper's two graphs: a row for each window, with what its decoder has read and what its sound looks like.

As in `decoder`, rows in use are the first ones, a decoding step binds a prefix of them, and every input and output is
memory that this module owns. A window's sound is encoded straight into its row and read there at each step.
"""

from collections.abc import Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch_runtime_cpu.engine.onnx_session import half_of_the_cores, open_session
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.conversion import WhisperFiles
from conch_runtime_cpu.graphs.decoder_graph import kv_names
from conch_runtime_cpu.graphs.whisper_architecture import WhisperArchitecture
from conch_runtime_cpu.graphs.whisper_decoder_graph import query_name
from conch_runtime_cpu.graphs.whisper_encoder_graph import FEATURES

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Head = tuple[int, int]
"""A layer of the decoder, and a head in it."""


class WhisperModel:
    """A loaded model with the memory of its rows."""

    def __init__(self, files: WhisperFiles, architecture: WhisperArchitecture, context: int, slots: int) -> None:
        self.slots = slots
        self.vocabulary = architecture.vocabulary
        self.context = context
        self.logits: Floats = np.zeros((slots, architecture.vocabulary), np.float32)
        """What the last calls predicted, by row."""
        self._shape = architecture
        self._encoder = open_session(files.encoder, threads=half_of_the_cores())
        self._decoder = open_session(files.decoder, threads=1)
        heads, size = architecture.decoder_heads, architecture.head_dim
        self._text = _Memory(architecture.decoder_layers, (slots, heads, context, size))
        self._sound = _Memory(architecture.decoder_layers, (slots, heads, architecture.positions, size))
        self._tokens: Ids = np.zeros((slots, 1), np.int64)
        self._positions: Ids = np.zeros((slots, 1), np.int64)
        self._lengths = np.zeros(slots, np.int32)
        self._longest = np.zeros(1, np.int32)
        self._first: Ids = np.zeros((slots, 1, 1), np.int64)
        self._decodings: dict[int, onnxruntime.IOBinding] = {}

    def warm_up(self) -> None:
        """Compute once, so that a graph that cannot run fails before the first request."""
        self.encode(0, np.zeros((self._shape.mels, 2 * self._shape.positions), np.float32))
        self.prefill(0, np.zeros(2, np.int64), [1])
        self.decode([0], [3])

    def encode(self, row: int, features: Floats) -> None:
        """Let a row's decoder look at this sound from now on."""
        binding = self._encoder.io_binding()
        binding.bind_cpu_input(FEATURES, np.ascontiguousarray(features, np.float32)[None])
        self._sound.bind_outputs(binding, "cross", row, 1)
        self._encoder.run_with_iobinding(binding)

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        """Append one token to each of the first rows; `lengths` are the rows' lengths with it."""
        count = len(tokens)
        self._tokens[:count, 0] = tokens
        self._lengths[:count] = lengths
        self._lengths[:count] -= 1
        self._positions[:count, 0] = self._lengths[:count]
        self._longest[0] = max(lengths)
        binding = self._decodings.get(count)
        if binding is None:
            binding = self._decodings[count] = self._bind_decoding(count)
        self._decoder.run_with_iobinding(binding)

    def prefill(self, row: int, ids: Ids, keep: Sequence[int]) -> Floats:
        """Make these ids all that a row's decoder has read, and return what follows the ones at these places."""
        kept = np.empty((len(keep), self.vocabulary), np.float32)
        self._decoder.run_with_iobinding(self._bind_prefill(row, ids, keep, kept))
        return kept

    def attention(self, row: int, ids: Ids, heads: Sequence[Head], frames: int) -> Floats:
        """Do the same, and return how each id looks at the first positions of the sound: a score before softmax.

        The result is [heads, ids, frames].
        """
        unused = np.empty((1, self.vocabulary), np.float32)
        binding = self._bind_prefill(row, ids, [len(ids) - 1], unused)
        layers = sorted({layer for layer, _ in heads})
        found = {layer: np.empty((1, len(ids), self._shape.width), np.float32) for layer in layers}
        for layer, queries in found.items():
            binding.bind_output(query_name(layer), "cpu", 0, np.float32, queries.shape, queries.ctypes.data)
        self._decoder.run_with_iobinding(binding)
        size = self._shape.head_dim
        scores = np.empty((len(heads), len(ids), frames), np.float32)
        for index, (layer, head) in enumerate(heads):
            keys = self._sound.of(layer, "k")[row, head, :frames]
            scores[index] = found[layer][0, :, head * size : (head + 1) * size] @ keys.T
        return scores * np.float32(size**-0.5)

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's sound and its first tokens over another row."""
        for layer in self._text.arrays:
            layer[target, :, :length] = layer[source, :, :length]
        for layer in self._sound.arrays:
            layer[target] = layer[source]

    def _bind_prefill(self, row: int, ids: Ids, keep: Sequence[int], kept: Floats) -> onnxruntime.IOBinding:
        binding = self._decoder.io_binding()
        length = len(ids)
        binding.bind_cpu_input("input_ids", np.ascontiguousarray(ids, np.int64).reshape(1, -1))
        binding.bind_cpu_input("positions", np.arange(length, dtype=np.int64).reshape(1, -1))
        binding.bind_cpu_input("seqlens_k", np.array([length - 1], np.int32))
        binding.bind_cpu_input("total_len", np.array([length], np.int32))
        binding.bind_cpu_input("keep", np.array(keep, np.int64).reshape(1, -1, 1))
        binding.bind_output("logits", "cpu", 0, np.float32, (1, *kept.shape), kept.ctypes.data)
        self._bind_memory(binding, row, 1)
        return binding

    def _bind_decoding(self, count: int) -> onnxruntime.IOBinding:
        binding = self._decoder.io_binding()
        for name, array in (
            ("input_ids", self._tokens[:count]),
            ("positions", self._positions[:count]),
            ("seqlens_k", self._lengths[:count]),
            ("total_len", self._longest),
            ("keep", self._first[:count]),
        ):
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        shape = (count, 1, self.vocabulary)
        binding.bind_output("logits", "cpu", 0, np.float32, shape, self.logits.ctypes.data)
        self._bind_memory(binding, 0, count)
        return binding

    def _bind_memory(self, binding: onnxruntime.IOBinding, row: int, count: int) -> None:
        self._text.bind_inputs(binding, "past", row, count)
        self._text.bind_outputs(binding, "present", row, count)
        self._sound.bind_inputs(binding, "cross", row, count)


class _Memory:
    """Keys and values of every layer, in rows."""

    def __init__(self, layers: int, shape: tuple[int, int, int, int]) -> None:
        self._layers = layers
        self._row_shape = shape[1:]
        self.arrays: list[Floats] = [np.zeros(shape, np.float32) for _ in range(2 * layers)]

    def of(self, layer: int, part: str) -> Floats:
        return self.arrays[2 * layer + "kv".index(part)]

    def bind_inputs(self, binding: onnxruntime.IOBinding, prefix: str, row: int, count: int) -> None:
        for name, array in zip(kv_names(prefix, self._layers), self.arrays, strict=True):
            binding.bind_input(name, "cpu", 0, np.float32, (count, *self._row_shape), array[row:].ctypes.data)

    def bind_outputs(self, binding: onnxruntime.IOBinding, prefix: str, row: int, count: int) -> None:
        for name, array in zip(kv_names(prefix, self._layers), self.arrays, strict=True):
            binding.bind_output(name, "cpu", 0, np.float32, (count, *self._row_shape), array[row:].ctypes.data)


def window_slots_within(architecture: WhisperArchitecture, context: int, wanted: int, limit_bytes: int) -> int:
    """Return how many windows fit the limit, at most `wanted`; raises UnusableModel when none does."""
    one = architecture.slot_bytes(context)
    fitting = min(wanted, limit_bytes // one)
    if fitting < 1:
        raise UnusableModel(f"One window needs {one} bytes of key-value cache, and the limit is {limit_bytes}.")
    return fitting
