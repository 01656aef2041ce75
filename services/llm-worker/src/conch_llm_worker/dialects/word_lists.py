"""Lists of words as the backends of `fastertransformer` and `tensorrtllm` take them."""

from collections.abc import Sequence


def word_list(words: Sequence[Sequence[int]]) -> list[int]:
    """Return words as the backends want them: a row of all ids, and a row of cumulative ends padded with -1."""
    words = [word for word in words if word]
    flat = [id_ for word in words for id_ in word]
    ends, total = [], 0
    for word in words:
        total += len(word)
        ends.append(total)
    return flat + ends + [-1] * (len(flat) - len(ends))
