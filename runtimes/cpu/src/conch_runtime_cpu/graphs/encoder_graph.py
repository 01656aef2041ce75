"""Builds the ONNX graph of a BERT-family encoder from its weights.

| input          | type, shape  | meaning                                          |
|----------------|--------------|--------------------------------------------------|
| input_ids      | INT64 [B, S] | the tokens of each row, padded at its end        |
| attention_mask | INT64 [B, S] | 1 for a token, 0 for padding                     |
| token_type_ids | INT64 [B, S] | 0 for the first text, 1 for the second of a pair |

The output is `last_hidden_state` FP32 [B, S, H], or `logits` FP32 [B, L] of a model with a classification head.
"""

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.encoder_architecture import EncoderArchitecture
from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.weights import Weights

_INPUTS = (dialect.INPUT_IDS, dialect.ATTENTION_MASK, dialect.TOKEN_TYPE_IDS)


def build_encoder_graph(architecture: EncoderArchitecture, weights: Weights) -> ModelProto:
    """Return the model as ONNX; raises UnusableModel when a tensor is missing."""
    return _EncoderGraph(architecture, weights).build()


class _EncoderGraph:
    def __init__(self, architecture: EncoderArchitecture, weights: Weights) -> None:
        self._shape = architecture
        self._weights = weights
        self._nodes = Nodes()
        self._prefix = self._find_prefix()

    def build(self) -> ModelProto:
        hidden = self._embed()
        mask = self._nodes.node("Cast", [dialect.ATTENTION_MASK], to=TensorProto.INT32)
        for layer in range(self._shape.layers):
            hidden = self._layer(f"{self._prefix}encoder.layer.{layer}", hidden, mask)
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["B", "S"]) for name in _INPUTS]
        if self._shape.classifies:
            self._nodes.add("Identity", [self._logits(hidden)], [dialect.LOGITS])
            output = helper.make_tensor_value_info(dialect.LOGITS, TensorProto.FLOAT, ["B", "L"])
        else:
            self._nodes.add("Identity", [hidden], [dialect.LAST_HIDDEN_STATE])
            output = helper.make_tensor_value_info(dialect.LAST_HIDDEN_STATE, TensorProto.FLOAT, ["B", "S", "H"])
        return self._nodes.model("encoder", inputs, [output])

    def _find_prefix(self) -> str:
        for prefix in self._shape.prefixes:
            if f"{prefix}embeddings.word_embeddings.weight" in self._weights:
                return prefix
        raise UnusableModel("The weights hold no tensor embeddings.word_embeddings.weight.")

    def _embed(self) -> str:
        names = f"{self._prefix}embeddings"
        words = self._gather(f"{names}.word_embeddings", dialect.INPUT_IDS)
        places = self._gather(f"{names}.position_embeddings", self._positions())
        types = self._gather(f"{names}.token_type_embeddings", self._types(f"{names}.token_type_embeddings"))
        summed = self._nodes.node("Add", [self._nodes.node("Add", [words, types]), places])
        return self._nodes.node(
            "LayerNormalization", [summed, *self._norm(f"{names}.LayerNorm")], epsilon=self._shape.norm_epsilon, axis=-1
        )

    def _types(self, name: str) -> str:
        """Return the token types; a model that knows one type only has it for every token."""
        if len(self._weights[f"{name}.weight"]) > 1:
            return dialect.TOKEN_TYPE_IDS
        return self._nodes.node("Sub", [dialect.TOKEN_TYPE_IDS, dialect.TOKEN_TYPE_IDS])

    def _positions(self) -> str:
        """Return each token's position: counted over the mask, so that padding does not count."""
        axis = self._nodes.constant("axis", np.array(1, np.int64))
        counted = self._nodes.node("CumSum", [dialect.ATTENTION_MASK, axis])
        offset = self._nodes.constant("first_position", np.array(self._shape.first_position - 1, np.int64))
        shifted = self._nodes.node("Add", [counted, offset])
        return self._nodes.node("Mul", [shifted, dialect.ATTENTION_MASK])

    def _layer(self, name: str, hidden: str, mask: str) -> str:
        attended = self._attention(f"{name}.attention.self", hidden, mask)
        attended = self._project_and_add(f"{name}.attention.output", attended, hidden)
        wide = self._nodes.node("MatMul", [attended, self._matrix(f"{name}.intermediate.dense")])
        bias = self._vector(f"{name}.intermediate.dense.bias")
        return self._project_and_add(f"{name}.output", self._nodes.node("BiasGelu", [wide, bias]), attended)

    def _attention(self, name: str, hidden: str, mask: str) -> str:
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([self._weights[f"{part}.weight"] for part in parts]).T
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        weights = [self._nodes.constant(f"{name}.weight", matrix), self._nodes.constant(f"{name}.bias", bias)]
        return self._nodes.node("Attention", [hidden, *weights, mask], num_heads=self._shape.heads)

    def _project_and_add(self, name: str, hidden: str, residual: str) -> str:
        """Multiply by a dense layer's weights, add the residual and normalise."""
        product = self._nodes.node("MatMul", [hidden, self._matrix(f"{name}.dense")])
        bias = self._vector(f"{name}.dense.bias")
        norm = self._norm(f"{name}.LayerNorm")
        epsilon = self._shape.norm_epsilon
        return self._nodes.node("SkipLayerNormalization", [product, residual, *norm, bias], epsilon=epsilon)

    def _logits(self, hidden: str) -> str:
        first = self._nodes.constant("first_token", np.array(0, np.int64))
        token = self._nodes.node("Gather", [hidden, first], axis=1)
        if self._shape.family == "Bert":
            pooled = self._nodes.node("Tanh", [self._linear(f"{self._prefix}pooler.dense", token)])
            return self._linear("classifier", pooled)
        pooled = self._nodes.node("Tanh", [self._linear("classifier.dense", token)])
        return self._linear("classifier.out_proj", pooled)

    def _linear(self, name: str, hidden: str) -> str:
        product = self._nodes.node("MatMul", [hidden, self._matrix(name)])
        return self._nodes.node("Add", [product, self._vector(f"{name}.bias")])

    def _gather(self, name: str, indices: str) -> str:
        return self._nodes.node("Gather", [self._vector(f"{name}.weight"), indices])

    def _norm(self, name: str) -> tuple[str, str]:
        return self._vector(f"{name}.weight"), self._vector(f"{name}.bias")

    def _matrix(self, name: str) -> str:
        transposed: NDArray[np.float32] = self._weights[f"{name}.weight"].T
        return self._nodes.constant(f"{name}.weight", transposed)

    def _vector(self, name: str) -> str:
        return self._nodes.constant(name, self._weights[name])
