"""Writes the folder, the pictures and what transformers makes of them: pixels, ids, vectors, shares of right ones."""

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from transformers import CLIPImageProcessorPil, CLIPModel, PreTrainedTokenizerFast

from models.drawings.descriptions import described
from models.drawings.files import PictureFile, as_png, few_colors, twins
from models.drawings.pictures import Painter
from models.drawings.reading import decoded, processed
from models.drawings.scenes import Layout, Scene, Thing, draw_scene
from models.drawings.tower import as_values
from models.tiny_clip.captions import choices
from models.tiny_clip.network import DIMENSIONS, encoded, vectors
from models.tiny_vlm.folder import write_image_processor

_TRIED = 300
_SHOWN: dict[str, tuple[Scene, str]] = {
    "red_7": (Scene(Layout.DIGIT, (Thing("7", "red", 31, 33, 21),), 255), "a red 7"),
    "blue_star": (Scene(Layout.SHAPE, (Thing("star", "blue", 34, 31, 22),), 240), "a blue star"),
    "green_circle": (Scene(Layout.SHAPE, (Thing("circle", "green", 30, 32, 19),), 20), "a green circle"),
    "three_triangles": (
        Scene(
            Layout.COUNT, tuple(Thing("triangle", "orange", x, y, 8.5) for x, y in ((11, 12), (33, 52), (53, 31))), 255
        ),
        "3 orange triangles",
    ),
    "square_and_cross": (
        Scene(Layout.PAIR, (Thing("square", "purple", 17, 30, 11), Thing("cross", "yellow", 47, 36, 11)), 30),
        "a purple square left of a yellow cross",
    ),
}
_MORE_TEXTS = ("something red", "A drawing of a blue 4.", "three red stars", "Ein grünes Quadrat 🎉", "")


def write_folder(network: CLIPModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights, settings, processors and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    network.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # as older transformers call it
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    write_image_processor(folder, "CLIPProcessor")


def write_golden(folder: Path) -> None:
    """Write the pictures and their reference."""
    network = CLIPModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    processor = CLIPImageProcessorPil.from_pretrained(folder)
    drawn = {name: few_colors(Painter().paint([scene], 112)[0]) for name, (scene, _) in _SHOWN.items()}
    files = [as_png(name, picture) for name, picture in drawn.items()]
    files += [
        each for each in twins("red_7", drawn["red_7"], drawn["blue_star"]) if each.name.endswith((".jpg", ".gif"))
    ]
    (folder / "pictures").mkdir(exist_ok=True)
    for each in files:
        (folder / "pictures" / each.name).write_bytes(each.content)
    pixels = {each.name: processed(processor, decoded(each.content)) for each in files}
    texts = [*(text for _, text in _SHOWN.values()), *_MORE_TEXTS]
    with torch.no_grad():
        said, seen = vectors(network, encoded(tokenizer, texts), as_values(np.stack(list(pixels.values()))))
    np.savez_compressed(
        folder / "golden.npz",
        texts=said.numpy(),
        **{f"pixels/{name}": each for name, each in pixels.items()},
        **{f"vectors/{name}": each for name, each in zip(pixels, seen.numpy(), strict=True)},
    )
    cosines = (seen @ said.T).numpy()
    for at, (name, (_, text)) in enumerate(_SHOWN.items()):
        print(name, "is" if cosines[at].argmax() == at else "IS NOT", "nearest to", text, cosines[at].round(3))
    golden = {
        "model": folder.name,
        "note": "normalised vectors; arrays are in golden.npz: uint8 pixels [height, width, 3], a vector for each file "
        "and one for each text",
        "dimensions": DIMENSIONS,
        "logit_scale": round(float(network.logit_scale.detach().exp()), 5),
        "tolerance_vectors": 1e-4,
        "files": [_file_item(each, pixels[each.name].tobytes()) for each in files],
        "texts": [{"text": each, "ids": tokenizer(each)["input_ids"]} for each in texts],
        "cosines": [[round(float(each), 5) for each in row] for row in cosines],
        "right": {
            "digit": _share_right(network, tokenizer, Layout.DIGIT, held_out=False),
            "shape": _share_right(network, tokenizer, Layout.SHAPE, held_out=False),
            "digit, held out": _share_right(network, tokenizer, Layout.DIGIT, held_out=True),
            "shape, held out": _share_right(network, tokenizer, Layout.SHAPE, held_out=True),
        },
    }
    print(golden["right"], flush=True)
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


def _share_right(network: CLIPModel, tokenizer: PreTrainedTokenizerFast, layout: Layout, *, held_out: bool) -> float:
    """Return how many pictures are nearest to their own description among all of a thing in a colour."""
    random = Random(77)
    scenes = [draw_scene(random, layout, held_out=held_out) for _ in range(_TRIED)]
    texts = [*choices(layout, held_out=False), *choices(layout, held_out=True)]
    values = as_values(Painter().paint_roughly(scenes, 78))
    with torch.no_grad():
        said, seen = vectors(network, encoded(tokenizer, texts), values)
    nearest = (seen @ said.T).argmax(-1).tolist()
    right = [texts[at] == described(scene) for at, scene in zip(nearest, scenes, strict=True)]
    return round(right.count(True) / _TRIED, 3)


def _file_item(file: PictureFile, pixels: bytes) -> dict[str, Any]:
    return {
        "file": f"pictures/{file.name}",
        "sha256": hashlib.sha256(file.content).hexdigest(),
        "note": file.note,
        "pixels": f"pixels/{file.name}",
        "pixels_sha256": hashlib.sha256(pixels).hexdigest(),
        "vector": f"vectors/{file.name}",
    }
