"""A small random model on disk, and its forward pass in plain numpy."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Floats = NDArray[np.float32]
HEADS, KV_HEADS, DIM, HIDDEN, MLP, VOCABULARY, LAYERS, CONTEXT, THETA, EPSILON = 4, 2, 16, 32, 48, 64, 2, 64, 5e4, 1e-5


@dataclass(frozen=True, slots=True)
class RandomModel:
    """Which variant to make."""

    name: str = "LlamaForCausalLM"
    biases: bool = False
    head_norms: bool = False
    tied: bool = False


def config(model: RandomModel) -> dict[str, object]:
    """Return its config.json."""
    return {
        "architectures": [model.name],
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": DIM,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rope_theta": THETA,
        "rms_norm_eps": EPSILON,
        "tie_word_embeddings": model.tied,
    }


def weights(model: RandomModel, seed: int = 0) -> dict[str, Floats]:
    """Return its tensors."""
    random = np.random.default_rng(seed)

    def tensor(*shape: int) -> Floats:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    made = {"model.embed_tokens.weight": tensor(VOCABULARY, HIDDEN), "model.norm.weight": 1 + tensor(HIDDEN)}
    if not model.tied:
        made["lm_head.weight"] = tensor(VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{prefix}.{norm}.weight"] = 1 + tensor(HIDDEN)
        for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            made[f"{prefix}.self_attn.{part}_proj.weight"] = tensor(heads * DIM, HIDDEN)
            if model.biases:
                made[f"{prefix}.self_attn.{part}_proj.bias"] = tensor(heads * DIM)
            if model.head_norms and part != "v":
                made[f"{prefix}.self_attn.{part}_norm.weight"] = 1 + tensor(DIM)
        made[f"{prefix}.self_attn.o_proj.weight"] = tensor(HIDDEN, HEADS * DIM)
        made[f"{prefix}.mlp.gate_proj.weight"] = tensor(MLP, HIDDEN)
        made[f"{prefix}.mlp.up_proj.weight"] = tensor(MLP, HIDDEN)
        made[f"{prefix}.mlp.down_proj.weight"] = tensor(HIDDEN, MLP)
    return made


def write_folder(folder: Path, model: RandomModel, *, shards: int = 1) -> Path:
    """Write it as a Hugging Face folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(model)))
    tensors = weights(model)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    files = {name: f"model-{index % shards + 1}.safetensors" for index, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name, where in files.items() if where == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return folder


def forward(tensors: dict[str, Floats], ids: list[int]) -> Floats:
    """Return the logits after every id."""
    return forward_embedded(tensors, tensors["model.embed_tokens.weight"][ids])


def forward_embedded(tensors: dict[str, Floats], hidden: Floats) -> Floats:
    """Return the logits after every embedding."""
    for layer in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{layer}."): tensor for name, tensor in tensors.items()}
        hidden = hidden + _attention(own, _norm(hidden, own["input_layernorm.weight"]))
        normed = _norm(hidden, own["post_attention_layernorm.weight"])
        gate, up = normed @ own["mlp.gate_proj.weight"].T, normed @ own["mlp.up_proj.weight"].T
        hidden = hidden + (gate / (1 + np.exp(-gate)) * up) @ own["mlp.down_proj.weight"].T
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    logits: Floats = _norm(hidden, tensors["model.norm.weight"]) @ head.T
    return logits


def _attention(own: dict[str, Floats], hidden: Floats) -> Floats:
    length = len(hidden)

    def project(part: str) -> Floats:
        out = hidden @ own[f"self_attn.{part}_proj.weight"].T + own.get(f"self_attn.{part}_proj.bias", np.float32(0))
        by_head = out.reshape(length, -1, DIM)
        norm = own.get(f"self_attn.{part}_norm.weight")
        return (by_head if norm is None else _norm(by_head, norm)).swapaxes(0, 1)

    queries, keys = _rotate(project("q")), _rotate(project("k")).repeat(HEADS // KV_HEADS, axis=0)
    values = project("v").repeat(HEADS // KV_HEADS, axis=0)
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(DIM) + np.triu(np.full((length, length), -np.inf), 1)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    joined = (shares @ values).swapaxes(0, 1).reshape(length, -1)
    attended: Floats = joined @ own["self_attn.o_proj.weight"].T
    return attended


def _rotate(heads: Floats) -> Floats:
    angles = np.outer(np.arange(heads.shape[1]), THETA ** (-np.arange(0, DIM, 2) / DIM))
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = heads[..., : DIM // 2], heads[..., DIM // 2 :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _norm(hidden: Floats, weight: Floats) -> Floats:
    normed: Floats = hidden / np.sqrt((hidden * hidden).mean(axis=-1, keepdims=True) + EPSILON) * weight
    return normed
