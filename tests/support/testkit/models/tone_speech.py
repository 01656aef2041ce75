"""Speech of tones, for the stand-ins `speech` and `whisper_bls` of `triton_models`: sound of words, its tokenizer."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from conch_contracts.dialects import speech as dialect

WORDS = 64
WORD_S, TONE_S = 0.2, 0.16
_LOWEST_HZ, _STEP_HZ = 300, 40
_FADE_S = 0.004
_VOLUME = 0.3
_WRITTEN_TOGETHER = 65_536
"""Samples; more of Vorbis at once overflow the stack of its encoder."""

Sound = NDArray[np.float32]


def word_text(word: int) -> str:
    """Return how a word is written, without a space."""
    return f"w{word:02}"


def said(words: Sequence[int]) -> str:
    """Return how words are written."""
    return " ".join(map(word_text, words))


def tone_tokenizer() -> Tokenizer:
    """Return a tokenizer whose first ids are the words, each with its space."""
    vocabulary = {f" {word_text(word)}": word for word in range(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=" w00"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" w\d\d"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    special = [dialect.END, dialect.START, "<|en|>", "<|de|>", dialect.TRANSLATE, dialect.TRANSCRIBE]
    special += [dialect.PREVIOUS, dialect.NO_SPEECH[0], dialect.NO_TIMES]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.add_tokens([AddedToken(f"<|{index * 0.02:.2f}|>", normalized=False) for index in range(1501)])
    return tokenizer


def tone_ids() -> dict[str, int]:
    """Return the ids that the stand-in must know."""
    vocabulary = tone_tokenizer().get_vocab(with_added_tokens=True)
    return {
        "start": vocabulary[dialect.START],
        "previous": vocabulary[dialect.PREVIOUS],
        "language": vocabulary["<|en|>"],
        "first_time": vocabulary[dialect.NO_TIMES] + 1,
    }


def write_tone_folder(folder: Path) -> Path:
    """Write the files of a model of tones that an engine elsewhere serves: all but the weights."""
    folder.mkdir()
    vocabulary = tone_tokenizer().get_vocab(with_added_tokens=True)
    said = {
        "decoder_start_token_id": vocabulary[dialect.START],
        "eos_token_id": vocabulary[dialect.END],
        "is_multilingual": True,
        "lang_to_id": {token: vocabulary[token] for token in ("<|en|>", "<|de|>")},
        "task_to_id": {task: vocabulary[f"<|{task}|>"] for task in ("transcribe", "translate")},
        "alignment_heads": [[1, 0]],
    }
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper", "max_target_positions": 448}))
    (folder / "generation_config.json").write_text(json.dumps(said))
    (folder / "preprocessor_config.json").write_text("{}")
    (folder / "tokenizer.json").write_text(tone_tokenizer().to_str())
    return folder


def spoken(words: Sequence[int], rate: int = dialect.SAMPLE_RATE) -> Sound:
    """Return words as sound, one behind the other."""
    return np.concatenate([_tone(word, rate) for word in words]) if words else np.zeros(0, np.float32)


def silence(seconds: float, rate: int = dialect.SAMPLE_RATE) -> Sound:
    """Return nothing to be heard."""
    return np.zeros(round(seconds * rate), np.float32)


def file_of(
    sound: Sound, rate: int = dialect.SAMPLE_RATE, *, kind: str = "WAV", subtype: str | None = None, channels: int = 1
) -> bytes:
    """Return sound as a file that libsndfile knows."""
    buffer = io.BytesIO()
    samples = np.stack([sound] * channels, axis=1)
    with soundfile.SoundFile(buffer, "w", rate, channels, subtype, format=kind) as file:
        for at in range(0, len(samples), _WRITTEN_TOGETHER):
            file.write(samples[at : at + _WRITTEN_TOGETHER])
    return buffer.getvalue()


def _tone(word: int, rate: int) -> Sound:
    samples = np.zeros(round(WORD_S * rate), np.float32)
    length = round(TONE_S * rate)
    wave = _VOLUME * np.sin(2 * np.pi * (_LOWEST_HZ + _STEP_HZ * word) * np.arange(length) / rate)
    fade = round(_FADE_S * rate)
    ramp = np.linspace(0, 1, fade)
    wave[:fade] *= ramp
    wave[-fade:] *= ramp[::-1]
    samples[:length] = wave
    return samples
