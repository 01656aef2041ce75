"""Builds the ONNX graph of a decoder from its weights.

One graph serves prefill and decoding. Keys and values live in full-length buffers that `past` and `present` share.

| input      | type, shape         | meaning                                                                  |
|------------|---------------------|--------------------------------------------------------------------------|
| input_ids  | INT64 [B, S]        | the new tokens of each row                                               |
| seqlens_k  | INT32 [B]           | tokens in the row after this call, less one                              |
| total_len  | INT32 [1]           | the longest row after this call                                          |
| keep       | INT64 [B, K, 1]     | the positions among S whose logits are wanted                            |
| past.L.k/v | FP32 [B, KV, MAX, D]| keys and values of layer L; `present.L.k/v` are bound to the same memory |

The output `logits` is FP32 [B, K, V].

The graph of a model that sees pictures has two inputs more, and is else the same:

| input        | type, shape  | meaning                                                              |
|--------------|--------------|----------------------------------------------------------------------|
| features     | FP32 [F, H]  | what takes the place of embeddings; at least one row                 |
| feature_rows | INT64 [B, S] | the row among `features` for each token; -1 for its own embedding    |

A model of which vectors are made has a graph of its own, that takes whole texts and remembers none: `input_ids`,
`seqlens_k`, `total_len` and those two are its inputs, and its output is `last_hidden_state`, FP32 [B, S, H].
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from conch_contracts.cpu_runtime import Quantization
from conch_contracts.dialects.encoder import LAST_HIDDEN_STATE
from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture
from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.quantization import BLOCK, quantize
from conch_runtime_cpu.graphs.rotary_frequencies import rotary_frequencies
from conch_runtime_cpu.graphs.weights import Weights

FEATURES, FEATURE_ROWS = "features", "feature_rows"


def kv_names(prefix: str, layers: int) -> list[str]:
    """Return the names of the key and value tensors, `past` or `present`, in order."""
    return [f"{prefix}.{layer}.{part}" for layer, part in product(range(layers), "kv")]


def build_decoder_graph(
    architecture: DecoderArchitecture, weights: Weights, quantization: Quantization, *, sees: bool = False
) -> ModelProto:
    """Return the model as ONNX, with inputs for pictures if it sees; raises UnusableModel when a tensor is missing."""
    return _DecoderGraph(architecture, weights, quantization, sees=sees).build()


def build_hidden_state_graph(architecture: DecoderArchitecture, weights: Weights) -> ModelProto:
    """Return a model that sees, up to its last hidden state, as ONNX; raises UnusableModel when a tensor is missing.

    No token sees those behind it, so rows that are padded at their ends need no mask.
    """
    return _DecoderGraph(architecture, weights, Quantization.NONE, sees=True, remembers=False).build_hidden_state()


class _DecoderGraph:
    def __init__(
        self,
        architecture: DecoderArchitecture,
        weights: Weights,
        quantization: Quantization,
        *,
        sees: bool,
        remembers: bool = True,
    ) -> None:
        self._shape = architecture
        self._weights = weights
        self._bits = quantization.bits
        self._sees = sees
        self._remembers = remembers
        self._nodes = Nodes()

    def build(self) -> ModelProto:
        embedding, normed = self._hidden_state()
        kept = self._nodes.node("GatherND", [normed, "keep"], batch_dims=1)
        self._head(kept, embedding)
        return self._nodes.model("decoder", self._inputs(), self._outputs())

    def build_hidden_state(self) -> ModelProto:
        _, normed = self._hidden_state()
        self._nodes.add("Identity", [normed], [LAST_HIDDEN_STATE])
        output = helper.make_tensor_value_info(LAST_HIDDEN_STATE, TensorProto.FLOAT, ["B", "S", "H"])
        return self._nodes.model("hidden_state", [*self._ids_and_lengths(), *self._feature_inputs()], [output])

    def _hidden_state(self) -> tuple[str, str]:
        """Add all but the head; return the table of embeddings, and what the last layer gives, normalised."""
        shape = self._shape
        self._rotary_tables()
        embedding = self._nodes.constant("embedding", self._weights["model.embed_tokens.weight"])
        hidden = self._nodes.node("Gather", [embedding, "input_ids"])
        if self._sees:
            hidden = self._with_features(hidden)
        residual: str | None = None
        for layer in range(shape.layers):
            hidden, residual = self._layer(layer, hidden, residual)
        normed, _ = self._norm("model.norm", hidden, residual)
        return embedding, normed

    def _with_features(self, embedded: str) -> str:
        """Put features in the place of the embeddings that have a row among them; the others stay bit for bit."""
        zero = self._nodes.constant("no_row", np.array(0, np.int64))
        last = self._nodes.constant("last_axis", np.array([-1], np.int64))
        seen = self._nodes.node("GreaterOrEqual", [FEATURE_ROWS, zero])
        found = self._nodes.node("Gather", [FEATURES, self._nodes.node("Max", [FEATURE_ROWS, zero])])
        return self._nodes.node("Where", [self._nodes.node("Unsqueeze", [seen, last]), found, embedded])

    def _layer(self, layer: int, hidden: str, residual: str | None) -> tuple[str, str]:
        prefix = f"model.layers.{layer}"
        normed, residual = self._norm(f"{prefix}.input_layernorm", hidden, residual)
        attended = self._attention(layer, normed)
        normed, residual = self._norm(f"{prefix}.post_attention_layernorm", attended, residual)
        return self._mlp(prefix, normed), residual

    def _norm(self, name: str, hidden: str, residual: str | None) -> tuple[str, str]:
        """Add to the residual and normalise; return both."""
        weight = self._nodes.constant(name, self._weights[f"{name}.weight"])
        epsilon = self._shape.norm_epsilon
        if residual is None:
            return self._nodes.node("SimplifiedLayerNormalization", [hidden, weight], epsilon=epsilon, axis=-1), hidden
        normed, added = f"{name}.normed", f"{name}.sum"
        outputs = [normed, "", "", added]
        self._nodes.add("SkipSimplifiedLayerNormalization", [residual, hidden, weight], outputs, epsilon=epsilon)
        return normed, added

    def _attention(self, layer: int, hidden: str) -> str:
        shape = self._shape
        prefix = f"model.layers.{layer}.self_attn"
        past = [f"past.{layer}.k", f"past.{layer}.v"] if self._remembers else ["", ""]
        present = [f"present.{layer}.k", f"present.{layer}.v"]
        attended = f"{prefix}.attended"
        self._nodes.add(
            "GroupQueryAttention",
            [*self._queries_keys_values(prefix, hidden), *past, "seqlens_k", "total_len", "cos", "sin"],
            [attended, *present],
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            do_rotary=1,
            rotary_interleaved=0,
            scale=float(shape.head_dim**-0.5),
        )
        return self._linear(f"{prefix}.o_proj", [f"{prefix}.o_proj"], attended)

    def _queries_keys_values(self, prefix: str, hidden: str) -> list[str]:
        names = [f"{prefix}.{part}_proj" for part in "qkv"]
        if f"{prefix}.q_norm.weight" not in self._weights:
            return [self._linear(f"{prefix}.qkv", names, hidden), "", ""]
        queries, keys, values = (self._linear(name, [name], hidden) for name in names)
        return [
            self._norm_heads(f"{prefix}.q_norm", queries, self._shape.heads),
            self._norm_heads(f"{prefix}.k_norm", keys, self._shape.kv_heads),
            values,
        ]

    def _norm_heads(self, name: str, projected: str, heads: int) -> str:
        dim = self._shape.head_dim
        split = self._nodes.constant(f"{name}.split", np.array([0, 0, heads, dim], np.int64))
        join = self._nodes.constant(f"{name}.join", np.array([0, 0, heads * dim], np.int64))
        weight = self._nodes.constant(name, self._weights[f"{name}.weight"])
        by_head = self._nodes.node("Reshape", [projected, split])
        normed = self._nodes.node(
            "SimplifiedLayerNormalization", [by_head, weight], epsilon=self._shape.norm_epsilon, axis=-1
        )
        return self._nodes.node("Reshape", [normed, join])

    def _mlp(self, prefix: str, hidden: str) -> str:
        gate = self._linear(f"{prefix}.gate", [f"{prefix}.mlp.gate_proj"], hidden)
        up = self._linear(f"{prefix}.up", [f"{prefix}.mlp.up_proj"], hidden)
        activated = self._nodes.node("Mul", [gate, self._nodes.node("Sigmoid", [gate])])
        return self._linear(f"{prefix}.down", [f"{prefix}.mlp.down_proj"], self._nodes.node("Mul", [activated, up]))

    def _head(self, kept: str, embedding: str) -> None:
        if "lm_head.weight" in self._weights and not self._shape.tied_embeddings:
            matrix = self._weights["lm_head.weight"].T
        elif self._bits < 32:
            matrix = self._weights["model.embed_tokens.weight"].T
        else:
            transposed = self._nodes.node("Transpose", [embedding], perm=[1, 0])
            self._nodes.add("MatMul", [kept, transposed], ["logits"])
            return
        self._multiply("lm_head", kept, matrix, "logits")

    def _linear(self, name: str, modules: Sequence[str], hidden: str) -> str:
        """Multiply by the weights of one or more modules side by side, and add their biases."""
        matrix = np.concatenate([self._weights[f"{module}.weight"] for module in modules]).T
        product_ = self._multiply(name, hidden, matrix, f"{name}.product")
        if f"{modules[0]}.bias" not in self._weights:
            return product_
        bias = np.concatenate([self._weights[f"{module}.bias"] for module in modules])
        return self._nodes.node("Add", [product_, self._nodes.constant(f"{name}.bias", bias)])

    def _multiply(self, name: str, hidden: str, matrix: NDArray[np.float32], output: str) -> str:
        if self._bits == 32:
            self._nodes.add("MatMul", [hidden, self._nodes.constant(f"{name}.weight", matrix)], [output])
            return output
        held = quantize(matrix, self._bits)
        packed = self._nodes.constant(f"{name}.packed", held.packed)
        scales = self._nodes.constant(f"{name}.scales", held.scales)
        self._nodes.add(
            "MatMulNBits",
            [hidden, packed, scales],
            [output],
            K=held.inputs,
            N=held.outputs,
            bits=held.bits,
            block_size=BLOCK,
            accuracy_level=4,
        )
        return output

    def _rotary_tables(self) -> None:
        angles = np.outer(np.arange(self._shape.context), rotary_frequencies(self._shape))
        self._nodes.constant("cos", np.cos(angles).astype(np.float32))
        self._nodes.constant("sin", np.sin(angles).astype(np.float32))

    def _inputs(self) -> list[ValueInfoProto]:
        return [
            *self._ids_and_lengths(),
            helper.make_tensor_value_info("keep", TensorProto.INT64, ["B", "K", 1]),
            *(self._feature_inputs() if self._sees else ()),
            *self._kv("past"),
        ]

    def _ids_and_lengths(self) -> list[ValueInfoProto]:
        return [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["B", "S"]),
            helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, ["B"]),
            helper.make_tensor_value_info("total_len", TensorProto.INT32, [1]),
        ]

    def _feature_inputs(self) -> list[ValueInfoProto]:
        return [
            helper.make_tensor_value_info(FEATURES, TensorProto.FLOAT, ["F", "H"]),
            helper.make_tensor_value_info(FEATURE_ROWS, TensorProto.INT64, ["B", "S"]),
        ]

    def _outputs(self) -> list[ValueInfoProto]:
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", "K", self._shape.vocabulary])
        return [logits, *self._kv("present")]

    def _kv(self, prefix: str) -> list[ValueInfoProto]:
        dims: list[str | int | None] = ["B", self._shape.kv_heads, "MAX", self._shape.head_dim]
        names = kv_names(prefix, self._shape.layers)
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in names]
