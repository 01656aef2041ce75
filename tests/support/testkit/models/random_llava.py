"""A small random LLaVA-like model on disk, and what its vision tower and projector compute, in plain numpy.

Its text model is that of `random_model`, so the same tensors in a folder of their own are the model without eyes.
"""

import json
import shutil
from dataclasses import dataclass
from math import erf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from testkit.models import random_model
from testkit.models.random_model import Floats, RandomModel

WIDTH, HEADS, MLP, LAYERS, SIDE, PATCH, EPSILON = 24, 3, 40, 3, 12, 4, 1e-5
PATCHES = (SIDE // PATCH) ** 2
"""Those of the model with the usual side; every other one has as many."""
IMAGE_TOKEN = 63
CONTEXT = 600
MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)
_TOWER = "vision_tower"
_AS_4 = (
    ("model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    (f"{_TOWER}.", f"{_TOWER}.vision_model."),
)
_AS_5 = (
    ("model.", "model.language_model."),
    (f"{_TOWER}.", f"model.{_TOWER}."),
    ("multi_modal_projector.", "model.multi_modal_projector."),
)
LAYOUTS = {"4": _AS_4, "5": _AS_5, "plain": ()}
"""How versions of transformers name the tensors; `plain` is as the runtime does."""
_PLAIN = RandomModel()


@dataclass(frozen=True, slots=True)
class RandomLlava:
    """Which variant to make."""

    text: RandomModel = _PLAIN
    layout: str = "4"
    taken: int | list[int] = -2
    strategy: str = "default"
    activation: str = "quick_gelu"
    projector_bias: bool = True
    side: int = SIDE

    @property
    def features(self) -> int:
        """Return how many features a picture has."""
        return PATCHES + (self.strategy == "full")

    @property
    def patch(self) -> int:
        """Return the height and width of a patch."""
        return self.side * PATCH // SIDE


def config(model: RandomLlava) -> dict[str, object]:
    """Return its config.json."""
    kind = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}[model.text.name]
    text = {**text_config(model.text), "model_type": kind}
    del text["architectures"]
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "image_token_index": IMAGE_TOKEN,
        "projector_hidden_act": "gelu",
        "multimodal_projector_bias": model.projector_bias,
        "vision_feature_layer": model.taken,
        "vision_feature_select_strategy": model.strategy,
        "text_config": text,
        "vision_config": {
            "model_type": "clip_vision_model",
            "hidden_size": WIDTH,
            "intermediate_size": MLP,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "image_size": model.side,
            "patch_size": model.patch,
            "hidden_act": model.activation,
        },
    }


def text_config(model: RandomModel) -> dict[str, object]:
    """Return the config.json of the text model in a folder of its own."""
    return {**random_model.config(model), "max_position_embeddings": CONTEXT}


def processor() -> dict[str, object]:
    """Return its preprocessor_config.json."""
    return {"image_mean": list(MEAN), "image_std": list(STD), "rescale_factor": 1 / 255}


def weights(model: RandomLlava) -> dict[str, Floats]:
    """Return its tensors by the runtime's own names."""
    return random_model.weights(model.text) | vision_weights(model, random_model.HIDDEN)


def vision_weights(model: RandomLlava, hidden: int) -> dict[str, Floats]:
    """Return the tensors of its tower, and of a projector for embeddings so wide."""
    random = np.random.default_rng(7)

    def tensor(*shape: int) -> Floats:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    made = {
        f"{_TOWER}.embeddings.class_embedding": tensor(WIDTH),
        f"{_TOWER}.embeddings.patch_embedding.weight": tensor(WIDTH, 3, model.patch, model.patch),
        f"{_TOWER}.embeddings.position_embedding.weight": tensor(PATCHES + 1, WIDTH),
    }
    inner = [f"{_TOWER}.encoder.layers.{layer}" for layer in range(LAYERS)]
    outer = (f"{_TOWER}.pre_layrnorm", f"{_TOWER}.post_layernorm")  # the second is for others than language models
    for norm in (*outer, *(f"{name}.layer_norm{at}" for name in inner for at in (1, 2))):
        made |= {f"{norm}.weight": 1 + tensor(WIDTH), f"{norm}.bias": tensor(WIDTH)}
    for name in inner:
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            made |= {
                f"{name}.self_attn.{part}.weight": tensor(WIDTH, WIDTH),
                f"{name}.self_attn.{part}.bias": tensor(WIDTH),
            }
        made |= {f"{name}.mlp.fc1.weight": tensor(MLP, WIDTH), f"{name}.mlp.fc1.bias": tensor(MLP)}
        made |= {f"{name}.mlp.fc2.weight": tensor(WIDTH, MLP), f"{name}.mlp.fc2.bias": tensor(WIDTH)}
    taken = len(model.taken) if isinstance(model.taken, list) else 1
    for at, size in ((1, WIDTH * taken), (2, hidden)):
        made[f"multi_modal_projector.linear_{at}.weight"] = tensor(hidden, size)
        if model.projector_bias:
            made[f"multi_modal_projector.linear_{at}.bias"] = tensor(hidden)
    return made


def write_folder(folder: Path, model: RandomLlava) -> Path:
    """Write it as a Hugging Face folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder, model, config(model), weights(model))


def write_around(folder: Path, text: Path, model: RandomLlava, image_token: int) -> Path:
    """Write the text model of another folder with random eyes; that folder has its weights in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(text / "tokenizer.json", folder)
    within = json.loads((text / "config.json").read_bytes())
    around = {**config(model), "text_config": within, "image_token_index": image_token}
    tensors = load_file(text / "model.safetensors")
    return _write(folder, model, around, tensors | vision_weights(model, within["hidden_size"]))


def _write(folder: Path, model: RandomLlava, said: dict[str, object], tensors: dict[str, Floats]) -> Path:
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor()))
    stored = {_stored(name, LAYOUTS[model.layout]): tensor for name, tensor in tensors.items()}
    save_file(stored, folder / "model.safetensors")
    return folder


def write_text_folder(folder: Path, model: RandomModel) -> Path:
    """Write the text model alone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(text_config(model)))
    save_file(random_model.weights(model), folder / "model.safetensors")
    return folder


def random_picture(seed: int, side: int = SIDE) -> NDArray[np.uint8]:
    """Return the pixels of a picture."""
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


def see(model: RandomLlava, tensors: dict[str, Floats], pixels: NDArray[np.uint8]) -> Floats:
    """Return a picture's features."""
    normalised = (pixels / 255 - np.array(MEAN)) / np.array(STD)
    grid = normalised.reshape(SIDE // PATCH, PATCH, SIDE // PATCH, PATCH, 3).transpose(0, 2, 4, 1, 3)
    kernel = tensors[f"{_TOWER}.embeddings.patch_embedding.weight"].reshape(WIDTH, -1)
    patches = grid.reshape(PATCHES, -1) @ kernel.T
    hidden = np.vstack([tensors[f"{_TOWER}.embeddings.class_embedding"], patches])
    hidden = hidden + tensors[f"{_TOWER}.embeddings.position_embedding.weight"]
    after = [_norm(hidden, tensors, f"{_TOWER}.pre_layrnorm")]
    for layer in range(LAYERS):
        after.append(_layer(after[-1], tensors, f"{_TOWER}.encoder.layers.{layer}", model.activation))
    numbers = model.taken if isinstance(model.taken, list) else [model.taken]
    seen = np.concatenate([after[number] for number in numbers], axis=-1)[0 if model.strategy == "full" else 1 :]
    projected = _gelu(_linear(seen, tensors, "multi_modal_projector.linear_1"))
    return _linear(projected, tensors, "multi_modal_projector.linear_2").astype(np.float32)


def _layer(hidden: Floats, tensors: dict[str, Floats], name: str, activation: str) -> Floats:
    normed = _norm(hidden, tensors, f"{name}.layer_norm1")
    queries, keys, values = (
        _linear(normed, tensors, f"{name}.self_attn.{part}_proj").reshape(PATCHES + 1, HEADS, -1).swapaxes(0, 1)
        for part in "qkv"
    )
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(WIDTH // HEADS)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    joined = (shares @ values).swapaxes(0, 1).reshape(PATCHES + 1, WIDTH)
    hidden = hidden + _linear(joined, tensors, f"{name}.self_attn.out_proj")
    wide = _linear(_norm(hidden, tensors, f"{name}.layer_norm2"), tensors, f"{name}.mlp.fc1")
    activated = _gelu(wide) if activation == "gelu" else wide / (1 + np.exp(-1.702 * wide))
    added: Floats = hidden + _linear(activated, tensors, f"{name}.mlp.fc2")
    return added


def _linear(hidden: Floats, tensors: dict[str, Floats], name: str) -> Floats:
    product: Floats = hidden @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", np.float32(0))
    return product


def _norm(hidden: Floats, tensors: dict[str, Floats], name: str) -> Floats:
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON)
    normed: Floats = scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
    return normed


def _gelu(values: Floats) -> Floats:
    halves: Floats = 0.5 * values * (1 + np.vectorize(erf)(values / np.sqrt(2)))
    return halves


def _stored(name: str, layout: tuple[tuple[str, str], ...]) -> str:
    for ours, theirs in layout:
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return name
