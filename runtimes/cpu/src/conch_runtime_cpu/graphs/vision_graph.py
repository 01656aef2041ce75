"""Builds the ONNX graph that turns a picture into features of a language model: a CLIP tower and a projector.

The input `pixels` is UINT8 [S, S, 3], the output `features` FP32 [F, H]: as many as a picture has ids, each as wide as
an embedding. The names of the weights are those that `llava_weights` gives.
"""

import numpy as np
from onnx import ModelProto, TensorProto, helper

from conch_runtime_cpu.graphs.clip_graphs import ClipStack, embed_pictures
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
        self._weights = weights
        self._tower = ClipStack(self._nodes, weights, architecture, _TOWER)
        self._layers = self._tower.dense

    def build(self) -> ModelProto:
        shape = self._shape
        embedded = embed_pictures(self._nodes, self._weights, shape, _TOWER, self._normalised())
        after = [self._layers.norm(f"{_TOWER}.pre_layrnorm", embedded)]
        for layer in range(max(shape.taken)):
            after.append(self._tower.layer(layer, after[-1]))
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

    def _without_class(self, seen: str) -> str:
        bounds = (self._numbers("start", 1), self._numbers("end", 2**31 - 1), self._numbers("axis", 1))
        return self._nodes.node("Slice", [seen, *bounds])

    def _project(self, seen: str) -> str:
        activated = self._nodes.node("Gelu", [self._layers.linear(f"{_PROJECTOR}.linear_1", seen)])
        return self._layers.linear(f"{_PROJECTOR}.linear_2", activated)

    def _numbers(self, name: str, *values: int) -> str:
        return self._nodes.constant(name, np.array(values, np.int64))
