"""Training: most of each window is silence, so most of that is left out, and what is left counts for it."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import WhisperForConditionalGeneration

from models.tiny_whisper.network import decoded, encoded
from models.tiny_whisper.windows import Excerpt, Studio, Window
from models.tiny_whisper.writing import Form, Writer

_WARM_UP = 60
_SHOWN_EACH = 100
_KEPT_EACH_S = 60
_TIMED = 0.7
_TRANSLATED = {"en": 0.1, "zh": 0.35}
_WITHOUT_TASK = 0.12
_LEFT_OUT = -100
_FAR = -1e4


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How long and how fast."""

    seconds: float
    rate: float = 1.2e-3
    size: int = 12
    one_of: int = 20
    """Of so many places in silence one is kept."""
    checked_each_s: float = 480


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows and what is to be written behind them."""

    spectra: Tensor
    places: Tensor
    weights: Tensor
    """Logarithmic, as attention adds them."""
    ids: Tensor
    wanted: Tensor


class BatchMaker:
    """Draws batches without end."""

    def __init__(self, studio: Studio, writer: Writer) -> None:
        self._studio = studio
        self._writer = writer

    def batches(self, size: int, one_of: int) -> Iterator[Batch]:
        """Yield batches of so many windows; of two in a row, one has what takes longer."""
        while True:
            drawn = [self._studio.draw() for _ in range(2 * size)]
            heard = [(each, self._studio.excerpt(each, one_of)) for each in drawn]
            heard.sort(key=lambda each: len(each[1].places))
            yield self._batch(heard[:size])
            yield self._batch(heard[size:])

    def _batch(self, heard: Sequence[tuple[Window, Excerpt]]) -> Batch:
        texts = []
        for window, _ in heard:
            written = self._writer.written(window, self._form(window))
            wanted = [one if learnt else _LEFT_OUT for one, learnt in zip(written.ids, written.learnt, strict=True)]
            texts.append((written.ids, [self._writer.first_learnt(window), *wanted[2:]]))
        length = max(len(ids) for ids, _ in texts) - 1
        padded = [ids[:-1] + [self._writer.end] * (length + 1 - len(ids)) for ids, _ in texts]
        wanted_ids = [wanted + [_LEFT_OUT] * (length - len(wanted)) for _, wanted in texts]
        return Batch(*_together([each for _, each in heard]), torch.tensor(padded), torch.tensor(wanted_ids))

    def _form(self, window: Window) -> Form:
        random = self._studio.random
        translated, timed = random.random() < _TRANSLATED[window.language], random.random() < _TIMED
        return Form(translated, timed, names_task=translated or random.random() > _WITHOUT_TASK)


def _together(excerpts: Sequence[Excerpt]) -> tuple[Tensor, Tensor, Tensor]:
    count, length = len(excerpts), max(len(each.places) for each in excerpts)
    spectra = np.zeros((count, 2 * length, excerpts[0].spectrum.shape[1]), np.float32)
    places, weights = np.zeros((count, length), np.int64), np.full((count, length), _FAR, np.float32)
    for row, each in enumerate(excerpts):
        spectra[row, : len(each.spectrum)] = each.spectrum
        places[row, : len(each.places)] = each.places
        weights[row, : len(each.places)] = np.log(each.weights)
    return torch.from_numpy(spectra), torch.from_numpy(places), torch.from_numpy(weights)


def train(
    plan: TrainingPlan,
    network: WhisperForConditionalGeneration,
    batches: BatchMaker,
    path: Path,
    check: Callable[[], str],
) -> None:
    """Train for so long, from what is at the path or from what the network is, and keep it there."""
    if path.exists():
        network.load_state_dict(torch.load(path))
    learnt = [each for each in network.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.01)
    began = kept = checked = time.monotonic()
    shown = 0.0
    for step, batch in enumerate(batches.batches(plan.size, plan.one_of)):
        if (done := (time.monotonic() - began) / plan.seconds) >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * min(1, (step + 1) / _WARM_UP, max(0.02, (1 - done) / 0.7))
        loss = _loss(network, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        shown = 0.97 * shown + 0.03 * loss.item() if step > _WARM_UP else loss.item()
        now = time.monotonic()
        if step % _SHOWN_EACH == _SHOWN_EACH - 1:
            print(f"step {step + 1}, {now - began:.0f} s: {shown:.4f}", flush=True)
        if now - kept > _KEPT_EACH_S:
            kept = now
            torch.save(network.state_dict(), path)
        if now - checked > plan.checked_each_s:
            checked = now
            print(check(), flush=True)
    torch.save(network.state_dict(), path)
    print(check(), flush=True)


def _loss(network: WhisperForConditionalGeneration, batch: Batch) -> Tensor:
    heard = encoded(network, batch.spectra, batch.places, batch.weights)
    hidden = decoded(network, batch.ids, heard, batch.weights)
    wanted = batch.wanted != _LEFT_OUT
    return nn.functional.cross_entropy(network.proj_out(hidden[wanted]), batch.wanted[wanted])
