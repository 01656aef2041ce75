"""Builds the two ONNX graphs of a CLIP model from its weights, of texts and of pictures.

The tensors are those of `conch_contracts.dialects.encoder`. The vectors are not normalised: who asks does that.

| input        | type, shape       | output                     |
|--------------|-------------------|----------------------------|
| input_ids    | INT64 [B, S]      | text_embeds FP32 [B, D]    |
| pixel_values | FP32 [B, 3, S, S] | image_embeds FP32 [B, D]   |

A text needs no mask: no token sees those behind it, and padding is behind the one whose state counts. `ClipStack` and
`embed_pictures` serve models of language that see, too.
"""

import numpy as np
from onnx import ModelProto, TensorProto, helper

from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.graphs.clip_architecture import ClipLayers, ClipTexts, ClipTower
from conch_runtime_cpu.graphs.dense_layers import DenseLayers
from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.weights import Weights

_TEXTS, _PICTURES = "text_model", "vision_model"


class ClipStack:
    """The layers of one tower; each method returns the name of its output."""

    def __init__(self, nodes: Nodes, weights: Weights, shape: ClipLayers, prefix: str, *, causal: bool = False) -> None:
        """Make one of the weights whose names begin with `prefix`; `causal` lets no token see those behind it."""
        self.dense = DenseLayers(nodes, weights, shape.norm_epsilon)
        self._nodes = nodes
        self._shape = shape
        self._prefix = prefix
        self._causal = causal

    def layer(self, number: int, hidden: str) -> str:
        """Add one layer."""
        name = f"{self._prefix}.encoder.layers.{number}"
        normed = self.dense.norm(f"{name}.layer_norm1", hidden)
        attended = self.dense.attend(f"{name}.self_attn", normed, self._shape.heads, causal=self._causal)
        hidden = self._nodes.node("Add", [hidden, attended])
        wide = self.dense.linear(f"{name}.mlp.fc1", self.dense.norm(f"{name}.layer_norm2", hidden))
        activated = self._nodes.node(self._shape.activation, [wide])
        return self._nodes.node("Add", [hidden, self.dense.linear(f"{name}.mlp.fc2", activated)])

    def all_layers(self, hidden: str) -> str:
        """Add all layers, one on the other."""
        for number in range(self._shape.layers):
            hidden = self.layer(number, hidden)
        return hidden


def build_clip_text_graph(shape: ClipTexts, weights: Weights) -> ModelProto:
    """Return the graph of texts; raises UnusableModel when a tensor is missing."""
    nodes = Nodes()
    stack = ClipStack(nodes, weights, shape, _TEXTS, causal=True)
    hidden = stack.all_layers(_embed_texts(nodes, stack))
    normed = stack.dense.norm(f"{_TEXTS}.final_layer_norm", hidden)
    end = nodes.node("ArgMax", [_end_scores(nodes, shape)], axis=1, keepdims=1)
    pooled = nodes.node("GatherND", [normed, end], batch_dims=1)
    nodes.add("Identity", [stack.dense.linear("text_projection", pooled)], [dialect.TEXT_EMBEDS])
    ids = helper.make_tensor_value_info(dialect.INPUT_IDS, TensorProto.INT64, ["B", "S"])
    vectors = helper.make_tensor_value_info(dialect.TEXT_EMBEDS, TensorProto.FLOAT, ["B", "D"])
    return nodes.model("texts", [ids], [vectors])


def build_clip_picture_graph(shape: ClipTower, weights: Weights) -> ModelProto:
    """Return the graph of pictures; raises UnusableModel when a tensor is missing."""
    nodes = Nodes()
    stack = ClipStack(nodes, weights, shape, _PICTURES)
    embedded = embed_pictures(nodes, weights, shape, _PICTURES, dialect.PIXEL_VALUES)
    hidden = stack.all_layers(stack.dense.norm(f"{_PICTURES}.pre_layrnorm", embedded))
    whole = nodes.node("Gather", [hidden, nodes.constant("whole", np.array(0, np.int64))], axis=1)
    normed = stack.dense.norm(f"{_PICTURES}.post_layernorm", whole)
    nodes.add("Identity", [stack.dense.linear("visual_projection", normed)], [dialect.IMAGE_EMBEDS])
    sides: list[str | int | None] = ["B", 3, shape.side, shape.side]
    pixels = helper.make_tensor_value_info(dialect.PIXEL_VALUES, TensorProto.FLOAT, sides)
    vectors = helper.make_tensor_value_info(dialect.IMAGE_EMBEDS, TensorProto.FLOAT, ["B", "D"])
    return nodes.model("pictures", [pixels], [vectors])


def _embed_texts(nodes: Nodes, stack: ClipStack) -> str:
    names = f"{_TEXTS}.embeddings"
    words = nodes.node("Gather", [stack.dense.tensor(f"{names}.token_embedding.weight"), dialect.INPUT_IDS])
    start, axis = (nodes.constant(name, np.array([0], np.int64)) for name in ("start", "axis"))
    length = nodes.node("Shape", [dialect.INPUT_IDS], start=1)
    positions = stack.dense.tensor(f"{names}.position_embedding.weight")
    return nodes.node("Add", [words, nodes.node("Slice", [positions, start, length, axis])])


def _end_scores(nodes: Nodes, shape: ClipTexts) -> str:
    """Return numbers of which the first of the highest is at the token that stands for its text."""
    if shape.end_id is None:
        return dialect.INPUT_IDS
    end = nodes.constant("end_id", np.array(shape.end_id, np.int64))
    return nodes.node("Cast", [nodes.node("Equal", [dialect.INPUT_IDS, end])], to=TensorProto.INT32)


def embed_pictures(nodes: Nodes, weights: Weights, shape: ClipTower, prefix: str, pictures: str) -> str:
    """Add what makes positions of pictures [B, 3, S, S]: one for the whole and one for each patch."""
    names = f"{prefix}.embeddings"
    matrix = nodes.constant(f"{names}.patch_embedding.weight", weights[f"{names}.patch_embedding.weight"])
    size = [shape.patch, shape.patch]
    filtered = nodes.node("Conv", [pictures, matrix], kernel_shape=size, strides=size)
    flat = nodes.node("Reshape", [filtered, nodes.constant("flat", np.array([0, shape.width, -1], np.int64))])
    patches = nodes.node("Transpose", [flat], perm=[0, 2, 1])
    first_is_free = nodes.constant("first_is_free", np.array([0, 1, 0, 0, 0, 0], np.int64))
    placed = weights[f"{names}.position_embedding.weight"].copy()
    placed[0] += weights[f"{names}.class_embedding"]
    positions = nodes.constant(f"{names}.position_embedding.weight", placed)
    return nodes.node("Add", [nodes.node("Pad", [patches, first_is_free]), positions])
