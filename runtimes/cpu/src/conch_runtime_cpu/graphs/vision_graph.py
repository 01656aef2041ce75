"""Builds the ONNX graph that turns a picture into features of a language model: a CLIP tower and a projector.

The input `pixels` is UINT8 [S, S, 3], the output `features` FP32 [F, H]: as many as a picture has ids, each as wide as
an embedding. The names of the weights are those that `llava_weights` gives.
"""

import numpy as np
from onnx import ModelProto, TensorProto, helper

from conch_runtime_cpu.graphs.dense_layers import DenseLayers
from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.vision_architecture import VisionArchitecture
from conch_runtime_cpu.graphs.weights import Weights

PIXELS, FEATURES = "pixels", "features"
_TOWER, _PROJECTOR = "vision_tower", "multi_modal_projector"


def build_vision_graph(architecture: VisionArchitecture, weights: Weights) -> ModelProto:
    """Return the model as ONNX; raises UnusableModel when a tensor is missing."""
    return _VisionGraph(architecture, weights).build()


class _VisionGraph:
    def __init__(self, architecture: VisionArchitecture, weights: Weights) -> None:
        self._shape = architecture
        self._nodes = Nodes()
        self._layers = DenseLayers(self._nodes, weights, architecture.norm_epsilon)

    def build(self) -> ModelProto:
        shape = self._shape
        hidden = self._layers.norm(f"{_TOWER}.pre_layrnorm", self._embed(self._normalised()))
        after = [hidden]
        for layer in range(max(shape.taken)):
            after.append(self._layer(f"{_TOWER}.encoder.layers.{layer}", after[-1]))
        picked = [after[number] for number in shape.taken]
        seen = picked[0] if len(picked) == 1 else self._nodes.node("Concat", picked, axis=-1)
        projected = self._project(seen if shape.keeps_class else self._without_class(seen))
        self._nodes.add("Squeeze", [projected, self._numbers("first", 0)], [FEATURES])
        pixels = helper.make_tensor_value_info(PIXELS, TensorProto.UINT8, [shape.side, shape.side, 3])
        features = helper.make_tensor_value_info(FEATURES, TensorProto.FLOAT, [shape.features, "H"])
        return self._nodes.model("vision", [pixels], [features])

    def _normalised(self) -> str:
        """Return the pixels as the tower was trained on them, [1, 3, S, S]."""
        normalisation = self._shape.normalisation
        scale = self._nodes.constant("scale", np.array(normalisation.scale, np.float32))
        shift = self._nodes.constant("shift", np.array(normalisation.shift, np.float32))
        scaled = self._nodes.node("Mul", [self._nodes.node("Cast", [PIXELS], to=TensorProto.FLOAT), scale])
        by_channel = self._nodes.node("Transpose", [self._nodes.node("Add", [scaled, shift])], perm=[2, 0, 1])
        return self._nodes.node("Unsqueeze", [by_channel, self._numbers("batch", 0)])

    def _embed(self, image: str) -> str:
        """Return one position for the whole picture and one for each patch, [1, 1 + patches, W]."""
        shape, names = self._shape, f"{_TOWER}.embeddings"
        matrix = self._layers.tensor(f"{names}.patch_embedding.weight")
        size = [shape.patch, shape.patch]
        filtered = self._nodes.node("Conv", [image, matrix], kernel_shape=size, strides=size)
        flat = self._nodes.node("Reshape", [filtered, self._numbers("flat", 1, shape.width, -1)])
        patches = self._nodes.node("Transpose", [flat], perm=[0, 2, 1])
        whole = self._layers.tensor(f"{names}.class_embedding")
        first = self._nodes.node("Reshape", [whole, self._numbers("one", 1, 1, shape.width)])
        placed = self._layers.tensor(f"{names}.position_embedding.weight")
        return self._nodes.node("Add", [self._nodes.node("Concat", [first, patches], axis=1), placed])

    def _layer(self, name: str, hidden: str) -> str:
        normed = self._layers.norm(f"{name}.layer_norm1", hidden)
        attended = self._layers.attend(f"{name}.self_attn", normed, self._shape.heads)
        hidden = self._nodes.node("Add", [hidden, attended])
        wide = self._layers.linear(f"{name}.mlp.fc1", self._layers.norm(f"{name}.layer_norm2", hidden))
        activated = self._nodes.node(self._shape.activation, [wide])
        return self._nodes.node("Add", [hidden, self._layers.linear(f"{name}.mlp.fc2", activated)])

    def _without_class(self, seen: str) -> str:
        bounds = (self._numbers("start", 1), self._numbers("end", 2**31 - 1), self._numbers("axis", 1))
        return self._nodes.node("Slice", [seen, *bounds])

    def _project(self, seen: str) -> str:
        activated = self._nodes.node("Gelu", [self._layers.linear(f"{_PROJECTOR}.linear_1", seen)])
        return self._layers.linear(f"{_PROJECTOR}.linear_2", activated)

    def _numbers(self, name: str, *values: int) -> str:
        return self._nodes.constant(name, np.array(values, np.int64))
