"""What transformers makes of chats with pictures, greedily, and how often that is right."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, CLIPImageProcessorPil, LlavaForConditionalGeneration, LlavaProcessor

from models.drawings.pictures import Painter, Pixels
from models.drawings.tower import FEATURES, as_values
from models.tiny_vlm.dialogues import Turn, draw_dialogue

_LONGEST = 120
_DIALOGUES = 250
_AT_ONCE = 25


@dataclass(frozen=True, slots=True)
class Answer:
    """A greedy answer; `margin` is how far the second choice was away, in logits, where it was nearest."""

    prompt: str
    prompt_ids: list[int]
    spans: list[tuple[int, int]]
    output_ids: list[int]
    text: str
    stopped: bool
    logprobs: list[float]
    margin: float
    first_top5: list[tuple[int, float]]


class Reference:
    """The model of a folder."""

    def __init__(self, folder: Path) -> None:
        self.network = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.image_processor = CLIPImageProcessorPil.from_pretrained(folder)
        self.processor = LlavaProcessor.from_pretrained(
            folder, image_processor=self.image_processor, tokenizer=self.tokenizer
        )
        self.image = int(self.network.config.image_token_index)

    def answer(self, messages: list[dict[str, Any]], pixels: Sequence[Pixels], tools: Any = None) -> Answer:
        """Return what it says; `pixels` are those of the pictures in the messages, in order."""
        prompt: str = self.tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True, tokenize=False
        )
        ids = self.expanded(prompt)
        seen = {"pixel_values": torch.cat([as_values(each[None]) for each in pixels])} if pixels else {}
        asked = torch.tensor([ids])
        with torch.no_grad():
            made = self.network.generate(
                input_ids=asked,
                attention_mask=torch.ones_like(asked),
                max_new_tokens=_LONGEST,
                do_sample=False,
                **seen,
            )
            written = made[0, len(ids) :]
            logits = self.network(input_ids=made, **seen).logits[0, len(ids) - 1 : -1]
        best = logits.topk(2, -1).values
        likely = logits.log_softmax(-1)
        top = likely[0].topk(5)
        stopped = int(written[-1]) in self.network.generation_config.eos_token_id
        return Answer(
            prompt=prompt,
            prompt_ids=ids,
            spans=self.spans(ids),
            output_ids=written.tolist(),
            text=self.tokenizer.decode(written[:-1] if stopped else written),
            stopped=stopped,
            logprobs=[round(float(likely[at, one]), 5) for at, one in enumerate(written.tolist())],
            margin=round(float((best[:, 0] - best[:, 1]).min()), 3),
            first_top5=[(int(one), round(float(value), 5)) for one, value in zip(top.indices, top.values, strict=True)],
        )

    def expanded(self, prompt: str) -> list[int]:
        """Return a prompt's ids, with one for each feature of a picture."""
        ids: list[int] = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return [one for each in ids for one in [each] * (FEATURES if each == self.image else 1)]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return where each picture begins among the ids, and how long it is."""
        places = [at for at, one in enumerate(ids) if one == self.image]
        return [(places[at], FEATURES) for at in range(0, len(places), FEATURES)]

    def features(self, pixels: Pixels) -> Tensor:
        """Return what the text model sees of a picture, [features, width]."""
        with torch.no_grad():
            made = self.network.get_image_features(as_values(pixels[None]))
        found: Tensor = made.pooler_output[0]
        return found

    def vector(self, ids: Sequence[int], pixels: Sequence[Pixels]) -> Tensor:
        """Return the last hidden state at the last of these ids, with length 1, [width]."""
        seen = {"pixel_values": torch.cat([as_values(each[None]) for each in pixels])} if pixels else {}
        with torch.no_grad():
            states = self.network.model(input_ids=torch.tensor([ids]), **seen).last_hidden_state
        found: Tensor = torch.nn.functional.normalize(states[0, -1], dim=-1)
        return found

    def shares_right(self, pictures: int, *, held_out: bool) -> dict[str, float]:
        """Return by what is asked how many answers are right to the letter; each question is the first of its chat."""
        random, painter = Random(1_000_003 + pictures), Painter()
        counted: dict[str, list[bool]] = defaultdict(list)
        for _ in range(_DIALOGUES // _AT_ONCE):
            dialogues = [draw_dialogue(random, pictures, held_out=held_out) for _ in range(_AT_ONCE)]
            turns = [random.choice(each.turns) for each in dialogues]
            scenes = [scene for each in dialogues for scene in each.scenes]
            values = as_values(painter.paint_roughly(scenes, random.randrange(2**32)))
            rights = self._right(turns, pictures, values)
            for turn, right in zip(turns, rights, strict=True):
                counted[turn.about].append(right)
        return {about: round(sum(each) / len(each), 3) for about, each in sorted(counted.items())}

    def _right(self, turns: Sequence[Turn], pictures: int, values: Tensor) -> list[bool]:
        """Return whether each answer is what is written greedily: its every id is the likeliest after those before."""
        parts = [{"type": "image"}] * pictures
        prompts = [
            self.expanded(
                self.tokenizer.apply_chat_template(
                    [{"role": "user", "content": [*parts, {"type": "text", "text": each.question}]}],
                    add_generation_prompt=True,
                    tokenize=False,
                )
            )
            for each in turns
        ]
        answers = [self.tokenizer(f"{each.answer}<|im_end|>")["input_ids"] for each in turns]
        longest = max(len(one) + len(other) for one, other in zip(prompts, answers, strict=True))
        pad = self.tokenizer.pad_token_id
        rows = [(one + other + [pad] * longest)[:longest] for one, other in zip(prompts, answers, strict=True)]
        with torch.no_grad():
            likeliest = self.network(input_ids=torch.tensor(rows), pixel_values=values).logits.argmax(-1).tolist()
        return [
            row[len(one) - 1 : len(one) - 1 + len(other)] == other
            for row, one, other in zip(likeliest, prompts, answers, strict=True)
        ]


def with_pictures(text: str, pictures: int) -> list[dict[str, Any]]:
    """Return a chat of one question after some pictures."""
    return [
        {"role": "user", "content": [*({"type": "image"} for _ in range(pictures)), {"type": "text", "text": text}]}
    ]
