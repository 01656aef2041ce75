"""Training: of many pictures and many captions, those that belong together are brought near each other."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn
from transformers import BatchEncoding, CLIPModel, PreTrainedTokenizerFast

from models.drawings.pictures import Painter
from models.drawings.scenes import draw_scene
from models.drawings.tower import as_values
from models.tiny_clip.captions import in_words, said_of
from models.tiny_clip.network import encoded, vectors

_SIZE = 64
_WARM_UP = 50
_KEPT_EACH = 50
_WORDS_ALONE = 0.35
"""In so much of the time the tower stays as it is: it knows what there is to say, and words come first."""
_SHARPEST = 4.6
"""The logarithm of what cosines are multiplied with at most: a hundred, as of CLIP."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pictures, captions, and which caption is true of which picture."""

    values: Tensor
    words: BatchEncoding
    true: Tensor


def draw_pairs(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[Pairs]:
    """Return batches without end."""
    random, painter = Random(seed), Painter()
    while True:
        scenes = [draw_scene(random) for _ in range(_SIZE)]
        said = [said_of(each) for each in scenes]
        chosen = [each[0] if random.random() < 0.65 else random.choice(each) for each in said]
        true = torch.tensor([[caption in each for caption in chosen] for each in said]).float()
        words = encoded(tokenizer, [in_words(random, each) for each in chosen])
        yield Pairs(as_values(painter.paint_roughly(scenes, random.randrange(2**32))), words, true)


def train(seconds: float, network: CLIPModel, tokenizer: PreTrainedTokenizerFast, seed: int, path: Path) -> None:
    """Train for so long, from what is at the path or from what the network is, and keep it there."""
    if path.exists():
        network.load_state_dict(torch.load(path))
    rate, shown = 1.2e-3, 0.0
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.02)
    began = time.monotonic()
    for step, pairs in enumerate(draw_pairs(tokenizer, seed)):
        if (done := (time.monotonic() - began) / seconds) >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / _WARM_UP, max(0.02, (1 - done) / 0.7))
        loss = _loss(network, pairs, tower_learns=done >= _WORDS_ALONE)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            network.logit_scale.clamp_(max=_SHARPEST)
        shown = 0.95 * shown + 0.05 * loss.item() if step else loss.item()
        if step % _KEPT_EACH == _KEPT_EACH - 1:
            torch.save(network.state_dict(), path)
            print(f"step {step + 1}, {time.monotonic() - began:.0f} s: {shown:.4f}", flush=True)
    torch.save(network.state_dict(), path)


def _loss(network: CLIPModel, pairs: Pairs, *, tower_learns: bool) -> Tensor:
    """Return how far the shares that each picture gives to captions, and each caption to pictures, are from true."""
    texts, pictures = vectors(network, pairs.words, pairs.values, tower_learns=tower_learns)
    logits = network.logit_scale.exp() * pictures @ texts.T
    both = ((logits, pairs.true), (logits.T, pairs.true.T))
    made = [nn.functional.cross_entropy(one, true / true.sum(-1, keepdim=True)) for one, true in both]
    return torch.stack(made).mean()
