"""From the times of ids to words."""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

_UNFINISHED = "\ufffd"
"""What stands for bytes that are no whole character yet."""
_MOST_IDS = 4
"""That a character may have: one for each of its bytes. More are looked at together in vain, and each time from the
first one on."""


class TextOfIds(Protocol):
    """What this module needs of a vocabulary."""

    def text(self, ids: Sequence[int]) -> str:
        """Return what ids of text stand for."""
        ...


@dataclass(frozen=True, slots=True)
class Word:
    """A word, without spaces and punctuation around it; times are seconds of the file."""

    text: str
    start: float
    end: float


@dataclass(slots=True)
class _Unit:
    text: str
    start: float
    end: float


def words_of(
    ids: Sequence[int], times: Sequence[float], window_s: float, bounds: tuple[float, float], vocabulary: TextOfIds
) -> tuple[Word, ...]:
    """Return the words of ids; `times` are their beginnings in the window, and the end of the last one.

    `window_s` is where the window begins in the file. A model tells the times of its segments and where it looks while
    it writes apart from each other, and the two differ; no word leaves the `bounds` of its segment, in seconds of the
    file.
    """
    first_s, last_s = bounds

    def in_file(time_s: float) -> float:
        return min(max(round(window_s + time_s, 3), first_s), last_s)

    joined: list[_Unit] = []
    for unit in _characters(ids, times, vocabulary):
        begins = unit.text.startswith(" ") or not joined or _is_wide(unit.text) or _is_wide(joined[-1].text)
        if begins:
            joined.append(unit)
        else:
            joined[-1].text += unit.text
            joined[-1].end = unit.end
    named = ((unit.text.strip().strip(string.punctuation), unit) for unit in joined)
    return tuple(Word(text, in_file(unit.start), in_file(unit.end)) for text, unit in named if text)


def _characters(ids: Sequence[int], times: Sequence[float], vocabulary: TextOfIds) -> Iterator[_Unit]:
    """Yield runs of ids that make whole characters."""
    first = 0
    for index in range(len(ids)):
        text = vocabulary.text(ids[first : index + 1])
        if _UNFINISHED in text and index - first + 1 < _MOST_IDS and index + 1 < len(ids):
            continue
        yield _Unit(text, times[first], times[index + 1])
        first = index + 1


def _is_wide(text: str) -> bool:
    """Tell whether a text is of a script that puts no spaces between words."""
    last = text.strip()[-1:]
    return bool(last) and ("\u0e00" <= last <= "\u0eff" or "\u1000" <= last <= "\u109f" or "\u3040" <= last <= "\u9fff")
