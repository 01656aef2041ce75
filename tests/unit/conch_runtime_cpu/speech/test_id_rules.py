"""Which ids may follow an answer, on a vocabulary of ten: text 0 to 3, an end, a start, no times, and three times."""

import math

import numpy as np
import pytest

from conch_runtime_cpu.speech.id_rules import forbid
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary

END, START, NO_TIMES, T0, T1, T2 = 4, 5, 6, 7, 8, 9
TEXT = {0, 1, 2, 3}
NO_TEXT_BUT_END = {END, START}
"""Of what is no time; transformers forbids the ids below the ending one."""


def vocabulary(**fields: object) -> SpeechVocabulary:
    given = {"suppressed": (), "suppressed_first": (), "latest_first_time": None, **fields}
    return SpeechVocabulary(10, START, (END,), frozenset(), NO_TIMES, None, **given)


def allowed(made: list[int], *, timed: bool = True, likely: tuple[int, ...] = (), **fields: object) -> set[int]:
    logits = np.zeros(10, np.float32)
    logits[list(likely)] = 20
    forbid(logits, made, vocabulary(**fields), timed=timed)
    return set(np.flatnonzero(np.isfinite(logits)).tolist())


@pytest.mark.parametrize(
    ("made", "likely", "expected"),
    [
        ([], (0,), {T0, T1, T2}),
        ([T0], (), TEXT | NO_TEXT_BUT_END),
        ([T0, 1], (2,), TEXT | NO_TEXT_BUT_END | {T1, T2}),
        ([T0, 1], (), {T1, T2}),  # three times together are likelier than any text
        ([T0, 1, T1], (END,), NO_TEXT_BUT_END | {T1, T2}),
        ([T0, 1, T1], (), {T1, T2}),
        ([T0, 1, T1, T1], (), TEXT | NO_TEXT_BUT_END),
        ([T0, 1, T1, T1, 2], (3,), TEXT | NO_TEXT_BUT_END | {T2}),
        ([T0, 1, T2, T2, 2], (3,), TEXT | NO_TEXT_BUT_END),
    ],
)
def test_times_come_in_pairs_that_never_go_back(made: list[int], likely: tuple[int, ...], expected: set[int]) -> None:
    assert allowed(made, likely=likely) == expected


def test_the_first_time_may_not_be_late() -> None:
    assert allowed([], latest_first_time=1) == {T0, T1}


def test_without_times_only_suppressed_ids_are_forbidden() -> None:
    fields = {"suppressed": (0,), "suppressed_first": (1, END)}
    assert allowed([], timed=False, **fields) == set(range(10)) - {0, 1, END}
    assert allowed([2], timed=False, **fields) == set(range(10)) - {0}


def test_the_sum_of_all_times_decides() -> None:
    logits = np.full(10, -20, np.float32)
    logits[[T1, T2]] = 1.0
    logits[2] = 1.0 + math.log(2) + 0.01
    likelier = logits.copy()
    forbid(likelier, [T0, 1], vocabulary(), timed=True)
    assert np.isfinite(likelier[2])
    logits[2] -= 0.02
    forbid(logits, [T0, 1], vocabulary(), timed=True)
    assert set(np.flatnonzero(np.isfinite(logits)).tolist()) == {T1, T2}
