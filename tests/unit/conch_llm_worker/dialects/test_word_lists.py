import pytest

from conch_llm_worker.dialects.word_lists import word_list


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ([[7768, 3908]], [7768, 3908, 2, -1]),
        ([[7768], [3908]], [7768, 3908, 1, 2]),
        ([[1, 2, 3], [], [4]], [1, 2, 3, 4, 3, 4, -1, -1]),
    ],
)
def test_words_are_flat_ids_and_cumulative_ends(words: list[list[int]], rows: list[int]) -> None:
    assert word_list(words) == rows
