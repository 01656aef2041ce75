"""Training: dialogues about pictures, mixed with what tiny-chat says by itself."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast, Qwen2ForCausalLM

from models.drawings.pictures import Painter
from models.drawings.tower import FEATURES, as_values
from models.tiny_vlm.dialogues import IMAGE, draw_dialogue, text_questions
from models.tiny_vlm.network import losses_of

_WARM_UP = 50
_KEPT_EACH = 50
_TEXT_EACH = 5
"""Every so many steps one is on text alone."""
_LONGEST = 90
Written = list[tuple[list[int], list[bool]]]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How long and how fast."""

    seconds: float
    rate: float = 1.5e-3
    size: int = 16
    text_size: int = 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Ids, which of them are learnt, and the pictures in them."""

    ids: Tensor
    learnt: Tensor
    values: Tensor | None


class BatchMaker:
    """Draws batches without end."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, texts: Written, seed: int) -> None:
        self._tokenizer = tokenizer
        self._texts = sorted(texts, key=lambda each: len(each[0]))
        self._random = Random(seed)
        self._painter = Painter()
        self._image = tokenizer.convert_tokens_to_ids(IMAGE)

    def pictures(self, size: int) -> Batch:
        """Return dialogues about one picture each, or two each, so that they are about equally long."""
        pictures = self._random.choices((1, 2), (3, 1))[0]
        dialogues = [draw_dialogue(self._random, pictures) for _ in range(size if pictures == 1 else size * 5 // 8)]
        scenes = [scene for each in dialogues for scene in each.scenes]
        values = as_values(self._painter.paint_roughly(scenes, self._random.randrange(2**32)))
        written = [self._written(each.pieces()) for each in dialogues]
        return Batch(*self._padded(written), values)

    def text(self, size: int) -> Batch:
        """Return questions without pictures, about equally long."""
        first = self._random.randrange(-size // 2, len(self._texts) - size // 2)
        return Batch(*self._padded(self._texts[max(0, first) : first + size]), None)

    def _written(self, pieces: Sequence[tuple[str, bool]]) -> tuple[list[int], list[bool]]:
        ids: list[int] = []
        learnt: list[bool] = []
        for text, is_learnt in pieces:
            for one in self._tokenizer(text, add_special_tokens=False)["input_ids"]:
                times = FEATURES if one == self._image else 1
                ids += [one] * times
                learnt += [is_learnt] * times
        return ids, learnt

    def _padded(self, written: Written) -> tuple[Tensor, Tensor]:
        length = max(len(ids) for ids, _ in written)
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([each + [pad] * (length - len(each)) for each, _ in written])
        learnt = torch.tensor([each + [False] * (length - len(each)) for _, each in written])
        return ids, learnt


def said_by_chat(
    chat: Path, tokenizer: PreTrainedTokenizerFast, more: Sequence[tuple[list[int], list[int]]]
) -> Written:
    """Return questions with tiny-chat's own answers, and prompts with answers that are known."""
    network = Qwen2ForCausalLM.from_pretrained(chat).eval()
    found: Written = []
    questions = [[{"role": "user", "content": each}] for each in text_questions()]
    prompts = [tokenizer.apply_chat_template(each, add_generation_prompt=True, return_dict=False) for each in questions]
    for length in sorted({len(each) for each in prompts}):
        alike = [each for each in prompts if len(each) == length]
        asked = torch.tensor(alike)
        made = network.generate(
            asked, attention_mask=torch.ones_like(asked), max_new_tokens=_LONGEST, do_sample=False
        ).tolist()
        for each in made:
            answer = each[length:]
            stop = next((at for at, one in enumerate(answer) if one in network.generation_config.eos_token_id), None)
            answer = answer if stop is None else answer[: stop + 1]
            found.append((each[:length] + answer, [False] * length + [True] * len(answer)))
    return found + [([*prompt, *answer], [False] * len(prompt) + [True] * len(answer)) for prompt, answer in more]


def train(plan: TrainingPlan, network: LlavaForConditionalGeneration, batches: BatchMaker, path: Path) -> None:
    """Train for so long, from what is at the path or from what the network is, and keep it there."""
    if path.exists():
        network.load_state_dict(torch.load(path))
    optimizer = torch.optim.AdamW(network.parameters(), lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.01)
    shown = {True: 0.0, False: 0.0}
    began = time.monotonic()
    step = 0
    while (done := (time.monotonic() - began) / plan.seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * min(1, (step + 1) / _WARM_UP, max(0.02, (1 - done) / 0.7))
        is_text = step % _TEXT_EACH == _TEXT_EACH - 1
        batch = batches.text(plan.text_size) if is_text else batches.pictures(plan.size)
        loss = losses_of(network, batch.ids, batch.learnt, batch.values)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        shown[is_text] = 0.95 * shown[is_text] + 0.05 * loss.item() if step > _WARM_UP else loss.item()
        step += 1
        if step % _KEPT_EACH == 0:
            torch.save(network.state_dict(), path)
        if step % 25 == 0:
            seconds = time.monotonic() - began
            print(f"step {step}, {seconds:.0f} s: pictures {shown[False]:.4f}, text {shown[True]:.4f}", flush=True)
    torch.save(network.state_dict(), path)
