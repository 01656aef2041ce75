import pytest

from conch_tokenizer.text import bad_and_stop_words
from conch_tokenizer.text.model_tokenizer import ModelTokenizer


def encoded(model: ModelTokenizer, *texts: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(model.encode(text, add_special_tokens=False)) for text in texts)


@pytest.mark.parametrize(
    ("given", "forms"),
    [
        (["cat"], ["cat", " cat"]),
        ([" cat"], ["cat", " cat"]),
        (["cat", " cat", "cat"], ["cat", " cat"]),
        ([" "], [" "]),
        (["two words", "猫"], ["two words", " two words", "猫", " 猫"]),
        ([], []),
    ],
)
def test_bad_words_come_with_and_without_a_space(given: list[str], forms: list[str], model: ModelTokenizer) -> None:
    assert bad_and_stop_words.bad_words(model, given) == encoded(model, *forms)


def test_stop_words_are_taken_as_they_are(model: ModelTokenizer) -> None:
    assert bad_and_stop_words.stop_words(model, ["\n\n", "<|im_end|>", "\n\n"]) == encoded(model, "\n\n", "<|im_end|>")
