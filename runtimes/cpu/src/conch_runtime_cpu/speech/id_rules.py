"""Forbids ids before one is chosen: those that the folder suppresses, and times where they would make no sense.

As transformers' SuppressTokensLogitsProcessor, SuppressTokensAtBeginLogitsProcessor and WhisperTimeStampLogitsProcessor
do. Of an answer with times the first id is one. Times come in pairs, the end of a segment and the beginning of the next
one, but for the last; they never go back, and a segment has a length. Where all times together are likelier than any
other id, a time comes next.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary

Floats = NDArray[np.float32]


def forbid(logits: Floats, made: Sequence[int], vocabulary: SpeechVocabulary, *, timed: bool) -> None:
    """Set the logits to minus infinity of all that may not follow the ids of an answer; one row, in place."""
    logits[list(vocabulary.suppressed)] = -np.inf
    if not made:
        logits[list(vocabulary.suppressed_first)] = -np.inf
    if timed:
        _forbid_times(logits, made, vocabulary)
        _prefer_times(logits, vocabulary.first_time_id)


def _forbid_times(logits: Floats, made: Sequence[int], vocabulary: SpeechVocabulary) -> None:
    first = vocabulary.first_time_id
    logits[vocabulary.no_times_id] = -np.inf
    if not made:
        logits[:first] = -np.inf
        if vocabulary.latest_first_time is not None:
            logits[first + vocabulary.latest_first_time + 1 :] = -np.inf
        return
    behind_time = made[-1] >= first
    behind_two = len(made) < 2 or made[-2] >= first
    if behind_time and behind_two:
        logits[first:] = -np.inf
    elif behind_time:
        logits[: vocabulary.ending_ids[0]] = -np.inf
    latest = next((token for token in reversed(made) if token >= first), None)
    if latest is not None:
        logits[first : latest if behind_time and not behind_two else latest + 1] = -np.inf


def _prefer_times(logits: Floats, first: int) -> None:
    times, likeliest = logits[first:], logits[:first].max()
    highest = times.max()
    if np.isneginf(highest):
        return
    if highest + np.log(np.exp(times - highest).sum()) > likeliest:
        logits[:first] = -np.inf
