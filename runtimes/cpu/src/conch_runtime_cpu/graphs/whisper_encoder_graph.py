"""Builds the ONNX graph of Whisper's encoder, which ends with what the decoder's layers look at.

The input `features` is FP32 [B, M, 2 P]: a spectrogram of M mels, two frames for each position. The outputs
`cross.L.k` and `cross.L.v` are FP32 [B, H, P, D]: keys and values of the sound for layer L of the decoder.
"""

import numpy as np
from onnx import ModelProto, TensorProto, helper

from conch_runtime_cpu.graphs.decoder_graph import kv_names
from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.weights import Weights
from conch_runtime_cpu.graphs.whisper_architecture import WhisperArchitecture
from conch_runtime_cpu.graphs.whisper_layers import WhisperLayers

FEATURES = "features"


def build_whisper_encoder_graph(architecture: WhisperArchitecture, weights: Weights) -> ModelProto:
    """Return the model as ONNX; raises UnusableModel when a tensor is missing."""
    return _WhisperEncoderGraph(architecture, weights).build()


class _WhisperEncoderGraph:
    def __init__(self, architecture: WhisperArchitecture, weights: Weights) -> None:
        self._shape = architecture
        self._nodes = Nodes()
        self._layers = WhisperLayers(self._nodes, weights)

    def build(self) -> ModelProto:
        shape = self._shape
        sound = self._convolution("model.encoder.conv2", self._convolution("model.encoder.conv1", FEATURES, 1), 2)
        positions = self._layers.tensor("model.encoder.embed_positions.weight")
        hidden = self._nodes.node("Add", [self._nodes.node("Transpose", [sound], perm=[0, 2, 1]), positions])
        for layer in range(shape.encoder_layers):
            hidden = self._layer(f"model.encoder.layers.{layer}", hidden)
        hidden = self._layers.norm("model.encoder.layer_norm", hidden)
        heads, size = shape.decoder_heads, shape.head_dim
        split = self._nodes.constant("split", np.array([0, 0, heads, size], np.int64))
        names = kv_names("cross", shape.decoder_layers)
        for name in names:
            _, layer_number, part = name.split(".")
            module = f"model.decoder.layers.{layer_number}.encoder_attn.{part}_proj"
            by_head = self._nodes.node("Reshape", [self._layers.linear(module, hidden), split])
            self._nodes.add("Transpose", [by_head], [name], perm=[0, 2, 1, 3])
        features = helper.make_tensor_value_info(FEATURES, TensorProto.FLOAT, ["B", shape.mels, 2 * shape.positions])
        dims: list[str | int | None] = ["B", heads, shape.positions, size]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in names]
        return self._nodes.model("encoder", [features], outputs)

    def _convolution(self, name: str, hidden: str, stride: int) -> str:
        weights = [self._layers.tensor(f"{name}.weight"), self._layers.tensor(f"{name}.bias")]
        filtered = self._nodes.node("Conv", [hidden, *weights], kernel_shape=[3], pads=[1, 1], strides=[stride])
        return self._nodes.node("Gelu", [filtered])

    def _layer(self, name: str, hidden: str) -> str:
        normed = self._layers.norm(f"{name}.self_attn_layer_norm", hidden)
        attended = self._layers.attend(f"{name}.self_attn", normed, self._shape.encoder_heads)
        hidden = self._nodes.node("Add", [hidden, attended])
        return self._layers.mlp(name, hidden)
