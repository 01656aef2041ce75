"""What transformers makes of a file of sound, greedily."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor
from transformers import AutoTokenizer, WhisperFeatureExtractor

from models.tiny_whisper.checking import heard_segments
from models.tiny_whisper.network import read_network
from models.tiny_whisper.voices import RATE

_SURE = 0.2
"""A file is taken if no second choice is nearer, in logits: then another engine's arithmetic writes the same."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A file's reference."""

    features: dict[str, Any]
    encoded_mean: float
    ids: list[int]
    text: str
    """Written without times."""
    translated_ids: list[int] | None
    translation: str | None
    timed_ids: list[int]
    segments: list[dict[str, Any]]
    auto_text: str
    logprobs: list[float]
    prompt: int
    """So many ids of those without times are the prompt."""
    sure: bool
    """With times no second choice was near."""

    def item(self) -> dict[str, Any]:
        """Return what golden.json holds of it."""
        translated = {"translate": {"text": self.translation, "generated_ids": self.translated_ids}}
        return {
            "transcribe": {"text": self.text, "generated_ids": self.ids},
            "auto_language_text": self.auto_text,
            "features": self.features,
            "encoder_out_mean_abs": self.encoded_mean,
            **(translated if self.translated_ids is not None else {}),
            "forced": {
                "prompt_ids": self.ids[: self.prompt],
                "token_ids": self.ids[self.prompt :],
                "logprobs": self.logprobs,
            },
            "timed": {"generated_ids": self.timed_ids},
            "segments": self.segments,
        }


class Reference:
    """The model of a folder."""

    def __init__(self, folder: Path) -> None:
        self.network = read_network(folder).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._extractor = WhisperFeatureExtractor.from_pretrained(folder)
        self._first_time = int(self.network.generation_config.no_timestamps_token_id) + 1

    def hear(self, path: Path, language: str, *, translated: bool = False) -> Heard:
        """Return what is made of a file of 16 kHz."""
        pcm, rate = soundfile.read(path, dtype="int16")
        if rate != RATE:
            raise SystemExit(f"{path} has {rate} samples a second, not {RATE}")
        sound = pcm.astype(np.float32) / 32768
        features = self._extractor(sound, sampling_rate=RATE, return_tensors="pt")["input_features"]
        ids = self._ids(features, language=language, task="transcribe")
        translation = self._ids(features, language=language, task="translate") if translated else None
        timed = self.network.generate(
            features, language=language, task="transcribe", return_timestamps=True, return_segments=True
        )
        with torch.no_grad():
            encoded = self.network.model.encoder(features).last_hidden_state
        prompt = ids.index(self._first_time - 1) + 1
        timed_ids = ids[: prompt - 1] + self._ended(timed["sequences"][0].tolist())
        likely = self._logits(features, ids).log_softmax(-1)
        timed_logits = self._logits(features, timed_ids)
        return Heard(
            features={
                "shape": list(features.shape),
                "mean": float(features.mean()),
                "min": float(features.min()),
                "max": float(features.max()),
                "first8_bin0": [float(each) for each in features[0, 0, :8]],
            },
            encoded_mean=float(encoded.abs().mean()),
            ids=ids,
            text=self._text(ids),
            translated_ids=translation,
            translation=None if translation is None else self._text(translation),
            timed_ids=timed_ids,
            segments=[
                {"start": start, "end": end, "text": text}
                for start, end, text in heard_segments(timed["segments"][0], self._tokenizer)
            ],
            auto_text=self._text(self._ids(features)),
            logprobs=[round(float(likely[at - 1, ids[at]]), 4) for at in range(prompt, len(ids))],
            prompt=prompt,
            sure=self._is_sure(timed_ids, timed_logits, prompt - 1),
        )

    def _ids(self, features: Tensor, **asked: str) -> list[int]:
        return self._ended(
            self.network.generate(features, **asked, return_dict_in_generate=True)["sequences"][0].tolist()
        )

    def _ended(self, ids: list[int]) -> list[int]:
        end = self.network.config.eos_token_id
        return [*ids[: ids.index(end) if end in ids else len(ids)], end]

    def _logits(self, features: Tensor, ids: list[int]) -> Tensor:
        with torch.no_grad():
            made: Tensor = self.network(input_features=features, decoder_input_ids=torch.tensor([ids])).logits[0]
        return made

    def _is_sure(self, ids: list[int], logits: Tensor, prompt: int) -> bool:
        """Return whether each id is far ahead of others of its kind: a time of times, a text of texts."""
        for at in range(prompt, len(ids)):
            first = self._first_time if ids[at] >= self._first_time else 0
            best = logits[at - 1, first : None if first else self._first_time].topk(2).values
            if best[0] - best[1] < _SURE:
                return False
        return True

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()
