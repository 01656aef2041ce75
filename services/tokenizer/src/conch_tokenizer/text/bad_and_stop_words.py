"""Bad words and stop words as the sequences of ids that an engine looks for."""

from collections.abc import Iterable, Sequence

from conch_kit.errors import InvalidRequest
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

Word = tuple[int, ...]


def bad_words(model: ModelTokenizer, words: Sequence[str]) -> tuple[Word, ...]:
    """Return each word as it is spelt at the start of a text and behind a space: a model can write either."""
    forms = (form for word in words for form in _with_and_without_space(_given(word, "bad_words")))
    return _distinct(model, forms)


def stop_words(model: ModelTokenizer, words: Sequence[str]) -> tuple[Word, ...]:
    """Return each stop word exactly as it is written."""
    return _distinct(model, (_given(word, "stop_words") for word in words))


def _with_and_without_space(word: str) -> tuple[str, ...]:
    bare = word.removeprefix(" ")
    return (bare, " " + bare) if bare else (word,)


def _given(word: str, param: str) -> str:
    if not word:
        raise InvalidRequest(f"expected words in {param}, found an empty one", param=param)
    return word


def _distinct(model: ModelTokenizer, forms: Iterable[str]) -> tuple[Word, ...]:
    encoded = (tuple(model.encode(form, add_special_tokens=False)) for form in forms)
    return tuple(dict.fromkeys(word for word in encoded if word))
