"""The vision tower that both models begin with: it learns alone first, by naming what is in pictures."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor, nn
from transformers import CLIPVisionConfig, CLIPVisionModel

from models.drawings.outlines import KINDS
from models.drawings.pictures import Painter, Pixels
from models.drawings.scenes import COLORS, SIDE, Layout, Scene, draw_scene

WIDTH = 128
PATCH = 8
FEATURES = (SIDE // PATCH) ** 2
LAYERS = 2
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)

_SIZE = 64
_KEPT_EACH = 50
_NAMING = 8
"""So many patches of a picture name what is in it, each by itself: a text model normalises each before it looks, so
what only their sum tells is lost."""
_ANSWERS = {"kind": len(KINDS), "color": len(COLORS), "count": 5, "right kind": len(KINDS), "right color": len(COLORS)}
_NONE = -100


def tower_config(layers: int = LAYERS) -> CLIPVisionConfig:
    """Return the settings of a tower."""
    return CLIPVisionConfig(
        hidden_size=WIDTH,
        intermediate_size=256,
        projection_dim=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
    )


def as_values(pixels: Pixels) -> Tensor:
    """Return pixels as the image processor hands them to a tower, [n, 3, side, side]."""
    values = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    return (values - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def new_tower() -> nn.ModuleDict:
    """Return a tower with what names things: from each patch, and from its class token."""
    names = sum(_ANSWERS.values())
    return nn.ModuleDict(
        {
            "vision": CLIPVisionModel(tower_config()),
            "named": nn.Linear(WIDTH, names),
            "named_by_class": nn.Linear(WIDTH, names),
        }
    )


def train_tower(seconds: float, seed: int, path: Path) -> None:
    """Train for so long, from what is at the path or from nothing, and keep it there."""
    tower = new_tower()
    rate = 1.5e-3
    optimizer = torch.optim.AdamW(tower.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.02)
    if path.exists():
        tower.load_state_dict(torch.load(path))
    shown: list[float] = []
    began = time.monotonic()
    for step, (values, answers) in enumerate(_batches(seed)):
        done = (time.monotonic() - began) / seconds
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 60, max(0.02, (1 - done) / 0.6))
        by_patch, by_class = _guesses(tower, values)
        loss = _loss(by_patch.flatten(0, 1), answers.repeat_interleave(_NAMING, 0)) + _loss(by_class, answers)
        loss.backward()
        nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        shown.append(loss.item())
        if step % _KEPT_EACH == _KEPT_EACH - 1:
            torch.save(tower.state_dict(), path)
            rights = ", ".join(f"{name} {share:.2f}" for name, share in _rights(by_patch[:, 0], answers).items())
            print(
                f"step {step + 1}, {time.monotonic() - began:.0f} s: {np.mean(shown[-100:]):.3f}; {rights}", flush=True
            )
    torch.save(tower.state_dict(), path)


def read_tower(path: Path) -> CLIPVisionModel:
    """Return the trained tower alone."""
    tower = new_tower()
    tower.load_state_dict(torch.load(path))
    vision: CLIPVisionModel = tower["vision"]
    return vision


def _batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    random, painter = Random(seed), Painter()
    while True:
        scenes = [draw_scene(random) for _ in range(_SIZE)]
        values = as_values(painter.paint_roughly(scenes, random.randrange(2**32)))
        yield values, torch.tensor([_answers(each) for each in scenes])


def _answers(scene: Scene) -> list[int]:
    first, last = scene.things[0], scene.things[-1]
    right = [KINDS.index(last.kind), list(COLORS).index(last.color)]
    return [
        KINDS.index(first.kind),
        list(COLORS).index(first.color),
        len(scene.things) - 1,
        *(right if scene.layout is Layout.PAIR else [_NONE, _NONE]),
    ]


def _guesses(tower: nn.ModuleDict, values: Tensor) -> tuple[Tensor, Tensor]:
    made = tower["vision"](values)
    some = 1 + torch.randperm(FEATURES)[:_NAMING]
    return tower["named"](made.last_hidden_state[:, some]), tower["named_by_class"](made.pooler_output)


def _loss(guesses: Tensor, answers: Tensor) -> Tensor:
    parts = guesses.split(list(_ANSWERS.values()), -1)
    made = [nn.functional.cross_entropy(each, answers[:, at], ignore_index=_NONE) for at, each in enumerate(parts)]
    return torch.stack(made).sum()


def _rights(guesses: Tensor, answers: Tensor) -> dict[str, float]:
    found = {}
    for at, (name, part) in enumerate(zip(_ANSWERS, guesses.split(list(_ANSWERS.values()), -1), strict=True)):
        asked = answers[:, at] != _NONE
        found[name] = float((part.argmax(-1) == answers[:, at])[asked].float().mean())
    return found
