"""Writes files of sound and what transformers makes of them: features, ids, log probabilities, segments."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from models.tiny_whisper.checking import Check
from models.tiny_whisper.phrases import known_phrase
from models.tiny_whisper.reference import Heard, Reference
from models.tiny_whisper.voices import RATE, Samples, Voice, say

_SPEEDS, _PITCHES = (160, 145, 175), (50, 40, 60)
_TAIL_S = 0.5
_NOISE = 0.002
_NEAR_S = 0.2 + 1e-6


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file: what is said from which second on."""

    name: str
    voice: str
    said: tuple[tuple[float, str], ...]

    @property
    def language(self) -> str:
        """Return what is spoken."""
        return "zh" if self.voice == "cmn" else "en"


PLANS = (
    PlannedFile("two_phrases", "en-us", ((0.0, "open the door"), (3.0, "seven four nine"))),
    PlannedFile("three_phrases", "en-gb", ((0.2, "stop"), (6.4, "one two"), (13.0, "play music"))),
    PlannedFile("late_start", "en-us", ((12.4, "turn off the light"),)),
    PlannedFile("zh_two_phrases", "cmn", ((0.4, "你好"), (8.0, "开灯"))),
)
QUIET = "noise"
"""A file in which nobody speaks."""


def write_golden(folder: Path, start: Path, check: Check) -> None:
    """Write the files and their reference; those of the model that training began with stay as they are."""
    reference = Reference(folder)
    shutil.copytree(start / "wavs", folder / "wavs", dirs_exist_ok=True)
    (folder / "flacs").mkdir(exist_ok=True)
    items = [_known_item(each, folder, reference) for each in _known(start)]
    items += [_planned_item(each, folder, reference) for each in PLANS]
    chance = np.random.default_rng(4)
    path = _written(folder, QUIET, (chance.standard_normal(3 * RATE) * _NOISE).astype(np.float32))
    items.append({"file": path, "seconds": 3.0, "language": "en", **reference.hear(folder / path, "en").item()})
    rates = check.rates(reference.network)
    golden = {
        "model": folder.name,
        "note": "greedy, WhisperFeatureExtractor defaults (80 mel, 30 s, 16 kHz); texts are stripped; "
        "a segment starts where its first id says",
        "tolerance_logprob": 0.01,
        "right": rates,
        "items": items,
    }
    for name, shares in rates.items():
        print(name, shares, flush=True)
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1))


def _known(start: Path) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads((start / "golden.json").read_text())["items"]
    return [each for each in items if each["file"].startswith("wavs/")]


def _known_item(known: dict[str, Any], folder: Path, reference: Reference) -> dict[str, Any]:
    heard = reference.hear(folder / known["file"], known["language"], translated="translate" in known)
    for said in ("transcribe", "translate"):
        if said in known and heard.item()[said]["text"] != known[said]["text"]:
            print(known["file"], "IS NOT", known[said]["text"], "but", heard.item()[said]["text"], flush=True)
    return {name: known[name] for name in ("file", "voice", "speed", "seconds", "language")} | heard.item()


def _planned_item(plan: PlannedFile, folder: Path, reference: Reference) -> dict[str, Any]:
    """Return the first way to say it that is written down rightly, or else the last one."""
    for voice, sound in _ways(plan):
        path = _written(folder, plan.name, sound)
        heard = reference.hear(folder / path, plan.language)
        about = {"file": path, "voice": voice.name, "speed": voice.speed, "pitch": voice.pitch}
        item = about | {"seconds": round(len(sound) / RATE, 3), "language": plan.language} | heard.item()
        if _is_right(heard, plan):
            return item
    print(plan.name, "IS NOT RIGHT:", heard.segments, heard.text, flush=True)
    return item


def _ways(plan: PlannedFile) -> Iterator[tuple[Voice, Samples]]:
    for pitch, speed in product(_PITCHES, _SPEEDS):
        voice = Voice(plan.voice, speed, pitch)
        parts = [(round(at * RATE), say(known_phrase(text), voice)) for at, text in plan.said]
        sound = np.zeros(parts[-1][0] + len(parts[-1][1]) + round(_TAIL_S * RATE), np.float32)
        for at, part in parts:
            sound[at : at + len(part)] = part
        yield voice, sound


def _is_right(heard: Heard, plan: PlannedFile) -> bool:
    texts = [known_phrase(text) for _, text in plan.said]
    return (
        heard.sure
        and [each["text"] for each in heard.segments] == [each.text for each in texts]
        and all(abs(each["start"] - at) < _NEAR_S for each, (at, _) in zip(heard.segments, plan.said, strict=True))
    )


def _written(folder: Path, name: str, sound: Samples) -> str:
    path = f"flacs/{name}.flac"
    soundfile.write(folder / path, sound, RATE, subtype="PCM_16")
    return path
