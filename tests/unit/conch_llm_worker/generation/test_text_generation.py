"""A choice of text: stop strings, the least tokens, counts, and why it ended."""

from collections.abc import Sequence
from typing import Any

import pytest

from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.token_deltas import EngineEnd, TokenDelta
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.choice_update import ChoiceFinish
from conch_llm_worker.generation.text_generation import TextGeneration, TokenCount
from testkit.builders.generate_requests import backend, generate_request, prompt, sampling
from testkit.models.vocabularies import byte_level

VOCABULARY = byte_level()
"""One token for each byte."""


def generation(**changes: Any) -> TextGeneration:
    request = generate_request(**changes)
    return TextGeneration(request, ChoiceRules.of(request, VOCABULARY), VOCABULARY)


def delta(text: str, made: int | None = None, end: EngineEnd | None = None) -> TokenDelta:
    return TokenDelta((), text=text, made=made, end=end)


def fed(made: TextGeneration, *deltas: TokenDelta) -> tuple[str, ChoiceFinish | None]:
    text = ""
    for one in deltas:
        update = made.feed(one)
        text += update.text
        if update.finish is not None:
            return text, update.finish
    return text, None


@pytest.mark.parametrize(
    ("end", "made", "finish"),
    [
        (EngineEnd.STOP, 5, ChoiceFinish("stop")),
        (EngineEnd.LENGTH, 5, ChoiceFinish("length")),
        (EngineEnd.UNKNOWN, 4, ChoiceFinish("stop")),
        (EngineEnd.UNKNOWN, 5, ChoiceFinish("length")),
        (EngineEnd.UNKNOWN, None, ChoiceFinish("length")),
    ],
)
def test_the_end_is_the_engines_or_follows_from_the_count(
    end: EngineEnd, made: int | None, finish: ChoiceFinish
) -> None:
    assert fed(generation(sampling=sampling(max_tokens=5)), delta("hello", made, end)) == ("hello", finish)


def test_an_engine_that_gives_up_is_an_error() -> None:
    with pytest.raises(MalformedResponse):
        generation().feed(delta("", 0, EngineEnd.CANCELLED))


@pytest.mark.parametrize("pieces", [["abcdef"], ["ab", "cd", "ef"], list("abcdef")])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"stop": ("cd",)}, ("ab", ChoiceFinish("stop", "cd"))),
        ({"stop": ("cd",), "include_stop_str_in_output": True}, ("abcd", ChoiceFinish("stop", "cd"))),
        ({"stop": ("fx",)}, ("abcdef", ChoiceFinish("stop"))),
        ({"backend": backend(stop_words=(tuple(b"de"), tuple(b"f")))}, ("abc", ChoiceFinish("stop", "de"))),
        ({"backend": backend(stop_words=(tuple(b"f"),))}, ("abcde", ChoiceFinish("stop", "f"))),
    ],
)
@pytest.mark.parametrize("counted", [True, False])
def test_stop_strings_do_not_depend_on_the_messages(
    pieces: list[str], changes: dict[str, Any], expected: object, counted: bool
) -> None:
    deltas = [delta(piece, len(piece) if counted else None) for piece in pieces]
    assert fed(generation(**changes), *deltas, delta("", 1, EngineEnd.STOP)) == expected


@pytest.mark.parametrize("pieces", [["xaxaxa"], ["xax", "axa"], list("xaxaxa")])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("least", "text"), [(0, "x"), (1, "x"), (2, "xax"), (3, "xax"), (4, "xaxax")])
def test_stop_strings_count_only_after_the_least_tokens(
    pieces: list[str], counted: bool, least: int, text: str
) -> None:
    deltas = [delta(piece, len(piece) if counted else None) for piece in pieces]
    made = generation(stop=("a",), sampling=sampling(min_tokens=least))
    assert fed(made, *deltas) == (text, ChoiceFinish("stop", "a"))


def test_tokens_are_counted_by_the_engine_or_else_by_the_tokenizer() -> None:
    made = generation()
    fed(made, delta("abc", 2), delta("dé", 7), delta("", 1, EngineEnd.STOP))
    assert made.completion_tokens == 10
    silent = generation()
    fed(silent, delta("abc"), delta("dé"), delta("", None, EngineEnd.STOP))
    assert silent.completion_tokens == 6


@pytest.mark.parametrize("text", ["word " * 400, "x" * 3000, "", " "])
def test_a_long_text_is_counted_piece_by_piece(text: str) -> None:
    counted: list[int] = []

    class Noted:
        """A vocabulary that notes how much it has to encode at once."""

        def borders(self, piece: str) -> Sequence[int]:
            counted.append(len(piece))
            return VOCABULARY.borders(piece)

    count = TokenCount(Noted())
    for at in range(0, len(text), 7):
        count.add(text[at : at + 7])
    assert count.total() == len(text)
    assert max(counted, default=0) < 600


def test_the_prompt_is_echoed_before_the_answer() -> None:
    request = generate_request()
    made = TextGeneration(request, ChoiceRules.of(request, VOCABULARY), VOCABULARY, prompt(text="the prompt"))
    assert made.echo(None).text == "the prompt"
