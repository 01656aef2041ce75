import pytest

from conch_llm_worker.text.partial_words import Words

WORDS = Words(("</think>", "<tool_call>", "<tool_call>\n"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("a < b", None),
        ("a</think>b<tool_call>", (1, "</think>")),
        ("x<tool_call>", (1, "<tool_call>")),
        ("x<tool_call>\n", (1, "<tool_call>\n")),
    ],
)
def test_the_first_word_is_found_and_of_two_the_longer_one(text: str, found: tuple[int, str] | None) -> None:
    assert WORDS.first_in(text) == found


@pytest.mark.parametrize(
    ("text", "certain"),
    [("", 0), ("abc", 3), ("abc<", 3), ("a<tool", 1), ("a<tools", 7), ("<<tool_cal", 1), ("a < b <", 6)],
)
def test_what_could_become_a_word_is_not_certain(text: str, certain: int) -> None:
    assert WORDS.certain(text) == certain


def test_without_words_all_is_certain() -> None:
    assert Words(()).certain("<tool") == 5
    assert Words(()).first_in("<tool") is None
