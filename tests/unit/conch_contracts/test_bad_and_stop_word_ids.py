import pytest

from conch_contracts.bad_and_stop_word_ids import parse_words


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ()),
        ([[5]], ((5,),)),
        ([[5, 6], [7]], ((5, 6), (7,))),
        ([[5, 6], [7, 8]], ((5, 6), (7, 8))),
        ([[5], [6], [5]], ((5,), (6,))),
        ([[7768, 3908], [1, 2]], ((7768,), (3908,))),
        ([[7, 8, 9], [2, 3, -1]], ((7, 8), (9,))),
        ([[7, 8, 9, 0], [2, 3, -1, -1]], ((7, 8), (9,))),
        ([[2], [2]], ((2,),)),
        ([[5], [1]], ((5,),)),
        ([[5, 1], [1, 2]], ((5,), (1,))),
        ([[10, 11], [2, 1]], ((10, 11), (2, 1))),
        ([[10, 11], [1, 1]], ((10, 11), (1, 1))),
    ],
)
def test_both_forms_are_read(rows: list[list[int]], words: tuple[tuple[int, ...], ...]) -> None:
    assert parse_words(rows) == words


@pytest.mark.parametrize(
    ("rows", "says"), [([[1], []], "at least one"), ([[-1]], "negative"), ([[1, 2], [-1, 2]], "-1")]
)
def test_rows_without_a_reading_are_refused(rows: list[list[int]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_words(rows)
