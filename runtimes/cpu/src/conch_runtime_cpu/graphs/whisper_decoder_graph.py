"""Builds the ONNX graph of Whisper's decoder. One graph serves prompts and single tokens, in rows of any length.

| input       | type, shape           | meaning                                                                  |
|-------------|-----------------------|--------------------------------------------------------------------------|
| input_ids   | INT64 [B, S]          | the new tokens of each row                                               |
| positions   | INT64 [B, S]          | where they stand in their row                                            |
| seqlens_k   | INT32 [B]             | tokens in the row after this call, less one                              |
| total_len   | INT32 [1]             | the longest row after this call                                          |
| keep        | INT64 [B, K, 1]       | the positions among S whose logits are wanted                            |
| past.L.k/v  | FP32 [B, H, MAX, D]   | keys and values of layer L; `present.L.k/v` are bound to the same memory |
| cross.L.k/v | FP32 [B, H, P, D]     | those of the sound, made by the encoder                                  |

The outputs are `logits` FP32 [B, K, V] and, for the times of words, `queries.L` FP32 [B, S, H D]: with what each token
looks at the sound.
"""

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from conch_runtime_cpu.graphs.decoder_graph import kv_names
from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.weights import Weights
from conch_runtime_cpu.graphs.whisper_architecture import WhisperArchitecture
from conch_runtime_cpu.graphs.whisper_layers import WhisperLayers


def build_whisper_decoder_graph(architecture: WhisperArchitecture, weights: Weights) -> ModelProto:
    """Return the model as ONNX; raises UnusableModel when a tensor is missing."""
    return _WhisperDecoderGraph(architecture, weights).build()


def query_name(layer: int) -> str:
    """Return the name of a layer's queries of the sound."""
    return f"queries.{layer}"


class _WhisperDecoderGraph:
    def __init__(self, architecture: WhisperArchitecture, weights: Weights) -> None:
        self._shape = architecture
        self._weights = weights
        self._nodes = Nodes()
        self._layers = WhisperLayers(self._nodes, weights)

    def build(self) -> ModelProto:
        words = self._layers.tensor("model.decoder.embed_tokens.weight")
        places = self._layers.tensor("model.decoder.embed_positions.weight")
        embedded = self._nodes.node("Gather", [words, "input_ids"])
        hidden = self._nodes.node("Add", [embedded, self._nodes.node("Gather", [places, "positions"])])
        for layer in range(self._shape.decoder_layers):
            hidden = self._layer(layer, hidden)
        kept = self._nodes.node("GatherND", [hidden, "keep"], batch_dims=1)
        self._head(self._layers.norm("model.decoder.layer_norm", kept), words)
        return self._nodes.model("decoder", self._inputs(), self._outputs())

    def _layer(self, layer: int, hidden: str) -> str:
        name = f"model.decoder.layers.{layer}"
        attended = self._attend_to_text(layer, self._layers.norm(f"{name}.self_attn_layer_norm", hidden))
        hidden = self._nodes.node("Add", [hidden, self._layers.linear(f"{name}.self_attn.out_proj", attended)])
        attended = self._attend_to_sound(layer, self._layers.norm(f"{name}.encoder_attn_layer_norm", hidden))
        hidden = self._nodes.node("Add", [hidden, self._layers.linear(f"{name}.encoder_attn.out_proj", attended)])
        return self._layers.mlp(name, hidden)

    def _attend_to_text(self, layer: int, normed: str) -> str:
        name = f"model.decoder.layers.{layer}.self_attn"
        attended = f"{name}.attended"
        new = [self._layers.linear(f"{name}.{part}_proj", normed) for part in "qkv"]
        self._nodes.add(
            "GroupQueryAttention",
            [*new, f"past.{layer}.k", f"past.{layer}.v", "seqlens_k", "total_len"],
            [attended, f"present.{layer}.k", f"present.{layer}.v"],
            num_heads=self._shape.decoder_heads,
            kv_num_heads=self._shape.decoder_heads,
            do_rotary=0,
        )
        return attended

    def _attend_to_sound(self, layer: int, normed: str) -> str:
        query = self._layers.linear(f"model.decoder.layers.{layer}.encoder_attn.q_proj", normed)
        self._nodes.add("Identity", [query], [query_name(layer)])
        sound = [f"cross.{layer}.k", f"cross.{layer}.v"]
        return self._nodes.node("MultiHeadAttention", [query, *sound], num_heads=self._shape.decoder_heads)

    def _head(self, kept: str, embedding: str) -> None:
        if "proj_out.weight" in self._weights and not self._shape.tied_embeddings:
            embedding = self._layers.tensor("proj_out.weight")
        transposed = self._nodes.node("Transpose", [embedding], perm=[1, 0])
        self._nodes.add("MatMul", [kept, transposed], ["logits"])

    def _inputs(self) -> list[ValueInfoProto]:
        return [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["B", "S"]),
            helper.make_tensor_value_info("positions", TensorProto.INT64, ["B", "S"]),
            helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, ["B"]),
            helper.make_tensor_value_info("total_len", TensorProto.INT32, [1]),
            helper.make_tensor_value_info("keep", TensorProto.INT64, ["B", "K", 1]),
            *self._kv("past", "MAX"),
            *self._kv("cross", self._shape.positions),
        ]

    def _outputs(self) -> list[ValueInfoProto]:
        shape = self._shape
        queries = [query_name(layer) for layer in range(shape.decoder_layers)]
        return [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", "K", shape.vocabulary]),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", "S", shape.width]) for name in queries),
            *self._kv("present", "MAX"),
        ]

    def _kv(self, prefix: str, length: str | int) -> list[ValueInfoProto]:
        dims: list[str | int | None] = ["B", self._shape.decoder_heads, length, self._shape.head_dim]
        names = kv_names(prefix, self._shape.decoder_layers)
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in names]
