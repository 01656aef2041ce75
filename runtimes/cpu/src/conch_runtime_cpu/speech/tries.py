"""Judges what one temperature brought, as transformers' `generate` does for Whisper."""

import math
import zlib
from collections.abc import Sequence
from enum import Enum, auto

from conch_contracts.messages.transcription import SpeechParameters


class Verdict(Enum):
    """What to do with a try."""

    ACCEPTED = auto()
    REJECTED = auto()
    """Another temperature may do better; the last one is taken all the same."""
    SILENT = auto()
    """Nobody speaks, whatever was made of it."""


def judge(
    ids: Sequence[int], avg_logprob: float, no_speech_prob: float, vocabulary: int, parameters: SpeechParameters
) -> Verdict:
    """Judge the ids of a try, the ending one among them; a probability that is NaN says nothing."""
    repeats = parameters.compression_ratio_threshold
    unlikely = parameters.logprob_threshold
    unsure = unlikely is not None and avg_logprob < unlikely
    silent = parameters.no_speech_threshold
    if silent is not None and no_speech_prob > silent and (unsure or unlikely is None):
        return Verdict.SILENT
    if unsure or (repeats is not None and compression_ratio(ids, vocabulary) > repeats):
        return Verdict.REJECTED
    return Verdict.ACCEPTED


def compression_ratio(ids: Sequence[int], vocabulary: int) -> float:
    """Return how much shorter the ids are when compressed: what repeats itself is above 2."""
    width = int(math.log2(vocabulary) / 8) + 1
    plain = b"".join(token.to_bytes(width, "little") for token in ids)
    return len(plain) / len(zlib.compress(plain))
