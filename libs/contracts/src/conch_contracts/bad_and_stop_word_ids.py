"""Bad words and stop words as token ids, in the two forms that model configurations hold.

A list of words holds one row of ids per word. FasterTransformer's form holds two rows of one length: all ids of all
words in a row, and the offset behind each word's last id, both padded at their end (offsets with -1).

| rows                         | words               | why                                                         |
|------------------------------|---------------------|-------------------------------------------------------------|
| [[7768, 3908], [1, 2]]       | [7768], [3908]      | the second row grows and ends at the first one's length     |
| [[7, 8, 9, 0], [2, 3, -1, -1]] | [7, 8], [9]       | the same, padded                                            |
| [[2], [2]]                   | [2]                 | no offsets (2 lies behind the only id): the same word twice |
| [[5], [1]]                   | [5]                 | both forms fit: FasterTransformer's is taken                |
| [[5, 6], [7]]                | [5, 6], [7]         | rows of two lengths can only be words                       |

Where both forms fit, the words [5] and [1] are written [[5, 1], [1, 2]].
"""

from collections.abc import Iterable, Sequence

Word = tuple[int, ...]
_PADDING = -1


def parse_words(rows: Sequence[Sequence[int]]) -> tuple[Word, ...]:
    """Return the words that these rows stand for, without repetitions; raises ValueError when there is no reading."""
    if len(rows) == 2 and (words := _from_offsets(rows[0], rows[1])) is not None:
        return _distinct(words)
    for row in rows:
        if not row:
            raise ValueError("a word must hold at least one token id, found []")
        if negative := [token for token in row if token < 0]:
            raise ValueError(
                f"a word's token ids must not be negative, found {negative[0]} (FasterTransformer's form is two rows "
                "of one length: ids, and the offset behind each word's last id)"
            )
    return _distinct(tuple(row) for row in rows)


def _from_offsets(flat: Sequence[int], row: Sequence[int]) -> list[Word] | None:
    padding = row.index(_PADDING) if _PADDING in row else len(row)
    offsets, rest = row[:padding], row[padding:]
    if len(flat) != len(row) or not offsets or any(value != _PADDING for value in rest):
        return None
    starts = [0, *offsets[:-1]]
    grows = all(start < end for start, end in zip(starts, offsets, strict=True))
    last = offsets[-1]
    if not grows or last > len(flat) or (last < len(flat) and not rest) or any(token < 0 for token in flat[:last]):
        return None
    return [tuple(flat[start:end]) for start, end in zip(starts, offsets, strict=True)]


def _distinct(words: Iterable[Word]) -> tuple[Word, ...]:
    return tuple(dict.fromkeys(words))
