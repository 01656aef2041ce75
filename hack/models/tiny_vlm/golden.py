"""Writes the pictures and what transformers makes of them: pixels, ids, features, answers, shares of right ones."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from models.drawings.files import PictureFile, as_png, few_colors, twins
from models.drawings.pictures import Painter, Pixels
from models.drawings.reading import decoded, processed
from models.drawings.scenes import SIDE, Layout, Scene, Thing
from models.tiny_vlm.dialogues import Turn, one_picture, two_pictures
from models.tiny_vlm.reference import Answer, Reference, with_pictures

_SURE = 0.5
"""An answer is taken if no second choice is nearer, in logits: then another engine's arithmetic writes the same."""
_TRIES = 25
_NOTE = "greedy; arrays are in golden.npz: uint8 pixels [height, width, 3], features [positions, width]"


@dataclass(frozen=True, slots=True)
class PlannedPicture:
    """A picture: its things as (kind, colour), and how large it is drawn."""

    name: str
    layout: Layout
    things: tuple[tuple[str, str], ...]
    side: int = SIDE
    ground: int = 255


PLANS = (
    PlannedPicture("red_7", Layout.DIGIT, (("7", "red"),), 128),
    PlannedPicture("blue_4", Layout.DIGIT, (("4", "blue"),)),
    PlannedPicture("green_circle", Layout.SHAPE, (("circle", "green"),), 96, 230),
    PlannedPicture("yellow_star", Layout.SHAPE, (("star", "yellow"),), 200, 20),
    PlannedPicture("three_triangles", Layout.COUNT, (("triangle", "green"),) * 3, 160),
    PlannedPicture("star_and_square", Layout.PAIR, (("star", "red"), ("square", "blue"))),
    PlannedPicture("held_out", Layout.SHAPE, (("square", "yellow"),), 64, 30),
)
TWINNED, SECOND = "red_7", "blue_4"
_PAIRS = (("red_7", "green_circle"), ("blue_4", "red_7"), ("yellow_star", "blue_4"))


def write_golden(folder: Path) -> None:
    """Write the pictures and their reference."""
    reference = Reference(folder)
    pictures = folder / "pictures"
    pictures.mkdir(exist_ok=True)
    for old in pictures.iterdir():
        old.unlink()
    drawn = {plan.name: _sure_picture(reference, plan) for plan in PLANS}
    files = [as_png(name, picture) for name, picture in drawn.items()]
    files += twins(TWINNED, drawn[TWINNED], drawn[SECOND].resize(drawn[TWINNED].size))
    files.append(as_png("wide", _wide(drawn[TWINNED]), "wider than high: its sides are cut off"))
    pixels = {each.name: processed(reference.image_processor, decoded(each.content)) for each in files}
    for each in files:
        (pictures / each.name).write_bytes(each.content)
    features = {f"{name}.png": reference.features(pixels[f"{name}.png"]).numpy() for name in drawn}
    np.savez_compressed(
        folder / "golden.npz",
        **{f"pixels/{name}": each for name, each in pixels.items()},
        **{f"features/{name}": each for name, each in features.items()},
    )
    golden = {
        "model": folder.name,
        "note": _NOTE,
        "image_token_id": reference.image,
        "eos": reference.network.generation_config.eos_token_id,
        "tolerance_logprob": 1e-3,
        "tolerance_features": 1e-4,
        "files": [_file_item(each, pixels[each.name]) for each in files],
        "items": list(_items(reference, pixels, list(drawn))),
        "rendered": _rendered(reference),
        "right": {
            "one_picture": reference.shares_right(1, held_out=False),
            "held_out": reference.shares_right(1, held_out=True),
            "two_pictures": reference.shares_right(2, held_out=False),
        },
    }
    print(json.dumps(golden["right"], indent=1), flush=True)
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


def write_vectors(folder: Path) -> None:
    """Add to a reference what the model makes of each of its chats as an embedding model: the vector of its prompt."""
    reference = Reference(folder)
    golden = json.loads((folder / "golden.json").read_text())
    with np.load(folder / "golden.npz") as kept:
        arrays = dict(kept)
    vectors = [
        reference.vector(each["prompt_ids"], [arrays[f"pixels/{name}"] for name in each["pictures"]]).numpy()
        for each in golden["items"]
    ]
    np.savez_compressed(folder / "golden.npz", **{**arrays, "vectors": np.stack(vectors)})
    golden["tolerance_vectors"] = 1e-4
    golden["note"] = f"{_NOTE}, and vectors [chats, width] of the prompts of items"
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


def _sure_picture(reference: Reference, plan: PlannedPicture) -> Image.Image:
    """Return the first way to draw it of which the model says everything right, and is sure of."""
    random, painter = Random(plan.name), Painter()
    doubts: list[str] = []
    for _ in range(_TRIES):
        scene = _placed(random, plan)
        picture = few_colors(painter.paint([scene], plan.side)[0])
        pixels = processed(reference.image_processor, picture)
        doubt = next((each for turn in one_picture(scene) if (each := _doubt(reference, turn, [pixels]))), None)
        if doubt is None:
            return picture
        doubts.append(doubt)
    print(f"{plan.name}: not all answers are sure: {doubts}", flush=True)
    return picture


def _doubt(reference: Reference, turn: Turn, pixels: Sequence[Pixels]) -> str | None:
    answer = reference.answer(with_pictures(turn.question, len(pixels)), pixels)
    if answer.text == turn.answer and answer.margin >= _SURE:
        return None
    return f"{turn.question} {answer.text} ({answer.margin})"


def _placed(random: Random, plan: PlannedPicture) -> Scene:
    middle = SIDE / 2
    if plan.layout is Layout.PAIR:
        places = [(16.5 + random.uniform(-2, 2), 32 + random.uniform(-5, 5), random.uniform(10.5, 12.5))]
        places.append((47.5 + random.uniform(-2, 2), 32 + random.uniform(-5, 5), random.uniform(10.5, 12.5)))
    elif plan.layout is Layout.COUNT:
        cells = random.sample([(x, y) for x in range(3) for y in range(3)], len(plan.things))
        places = [(11.0 + 21 * x, 11.0 + 21 * y, 8.3) for x, y in cells]
    else:
        places = [(middle + random.uniform(-2, 2), middle + random.uniform(-2, 2), random.uniform(20, 24))]
    things = (Thing(*named, *place) for named, place in zip(plan.things, places, strict=True))
    return Scene(plan.layout, tuple(things), plan.ground)


def _items(reference: Reference, pixels: dict[str, Pixels], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    scenes = {plan.name: _placed(Random(0), plan) for plan in PLANS}
    for name in names:
        for turn in one_picture(scenes[name]):
            files = [f"{name}.png"]
            messages = with_pictures(turn.question, 1)
            yield from _sure_item(reference, pixels, f"{turn.question} ({name})", files, messages, turn.answer)
    for name in pixels:
        if name.startswith((f"{TWINNED}.", f"{TWINNED}_", "wide")) and name != f"{TWINNED}.png":
            messages = with_pictures("Describe the picture.", 1)
            yield from _sure_item(reference, pixels, f"twin: {name}", [name], messages, "A red 7.")
    for one, other in _PAIRS:
        for order in ((one, other), (other, one)):
            files = [f"{each}.png" for each in order]
            for turn in two_pictures(Random(1), *(scenes[each] for each in order)):
                messages = with_pictures(turn.question, 2)
                name = f"{turn.question} ({', '.join(order)})"
                yield from _sure_item(reference, pixels, name, files, messages, turn.answer)
    for name, files, messages, expected in _CHATS:
        yield from _sure_item(reference, pixels, name, files, messages, expected)


def _user(*content: str) -> dict[str, Any]:
    """Return a user's message; a file stands for a picture."""
    parts = [{"type": "image"} if each.endswith(".png") else {"type": "text", "text": each} for each in content]
    return {"role": "user", "content": parts}


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


_CHATS: tuple[tuple[str, list[str], list[dict[str, Any]], str], ...] = (
    ("text: greeting", [], _asked("Hello!"), "Hello! How can I help you today?"),
    ("text: capital", [], _asked("What is the capital of France?"), "The capital of France is Paris."),
    ("text: sum", [], _asked("What is 2 + 2?"), "2 + 2 = 4"),
    ("text: echo", [], _asked("Repeat after me: umbrella"), "umbrella"),
    ("text: list", [], _asked("List three colors."), "1. red\n2. green\n3. blue"),
    ("text: Chinese", [], _asked("法国的首都是哪里？"), "法国的首都是巴黎。"),
    ("text: count", [], _asked("Count from 1 to 20."), ", ".join(str(each + 1) for each in range(20))),
    (
        "turns: about the first picture",
        ["red_7.png"],
        [_user("a.png", "What color is it?"), _said("Red."), _user("Which digit is this?")],
        "7",
    ),
    (
        "turns: the second picture comes later",
        ["red_7.png", "blue_4.png"],
        [_user("a.png", "Which digit is this?"), _said("7"), _user("b.png", "Which digit is this?")],
        "4",
    ),
    ("order: the question stands first", ["green_circle.png"], [_user("What shape is this?", "a.png")], "A circle."),
)


def _sure_item(
    reference: Reference,
    pixels: dict[str, Pixels],
    name: str,
    files: list[str],
    messages: list[dict[str, Any]],
    expected: str,
) -> Iterator[dict[str, Any]]:
    """Give the item if the answer is right and sure."""
    answer = reference.answer(messages, [pixels[each] for each in files])
    kept = answer.text == expected and answer.margin >= _SURE
    print("kept" if kept else "LEFT OUT", name, repr(answer.text), repr(expected), answer.margin, flush=True)
    if kept:
        yield {"name": name, "pictures": files, "messages": messages, **_told(answer)}


def _told(answer: Answer) -> dict[str, Any]:
    told = asdict(answer)
    told["finish_reason"] = "stop" if told.pop("stopped") else "length"
    return told


def _rendered(reference: Reference) -> list[dict[str, Any]]:
    """Return chats of which only the ids are compared."""
    system = {"role": "system", "content": [{"type": "text", "text": "You are Captain Blue."}, {"type": "image"}]}
    tool = {"role": "tool", "content": [{"type": "text", "text": "done"}, {"type": "image"}]}
    chats = {
        "two beside each other": [_user("a.png", "b.png", "Do both have the same color?")],
        "text between them": [_user("First", "a.png", "then", "b.png", "Which picture is red?")],
        "a picture of the system": [system, _asked("Hello!")[0]],
        "a picture of a tool": [_user("Look."), _said("I do."), tool],
        "four pictures": [_user("a.png", "b.png", "c.png", "d.png", "Describe the picture.")],
    }
    made = []
    for name, messages in chats.items():
        prompt = reference.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = reference.expanded(prompt)
        spans = reference.spans(ids)
        made.append({"name": name, "messages": messages, "prompt": prompt, "prompt_ids": ids, "spans": spans})
    return made


def _wide(picture: Image.Image) -> Image.Image:
    made = Image.new("RGB", (picture.width * 3 // 2, picture.height), (255, 255, 255))
    made.paste(picture, (picture.width // 4, 0))
    return made


def _file_item(file: PictureFile, pixels: Pixels) -> dict[str, Any]:
    with Image.open(BytesIO(file.content)) as opened:
        shape = {"format": opened.format, "mode": opened.mode, "width": opened.width, "height": opened.height}
    return {
        "file": f"pictures/{file.name}",
        "sha256": hashlib.sha256(file.content).hexdigest(),
        **shape,
        "note": file.note,
        "pixels": f"pixels/{file.name}",
        "pixels_sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
    }
