"""Text in messages: what is new in each, whichever way an engine sends it."""

from itertools import pairwise

import pytest

from conch_contracts.records import TextOutput
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.text_messages import TextReader, texts_of
from conch_llm_worker.dialects.token_deltas import EngineEnd
from testkit.engines.engine_messages import response

TEXT = "aé你🙂�e\u0301 end"
RAW = TEXT.encode()


@pytest.mark.parametrize("size", [1, 2, 3, 5, len(RAW)])
@pytest.mark.parametrize("output", list(TextOutput))
@pytest.mark.parametrize("exact", [True, False], ids=["bytes", "replaced"])
def test_the_pieces_are_the_text_and_no_character_is_split(size: int, output: TextOutput, exact: bool) -> None:
    borders = [*range(0, len(RAW), size), len(RAW)]
    if output is TextOutput.DELTA:
        pieces = [RAW[start:end] for start, end in pairwise(borders)]
    else:
        pieces = [RAW[:end] for end in borders]
        pieces = pieces if exact else [piece.decode("utf-8", "replace").encode() for piece in pieces]
    texts = texts_of(output)
    found = [texts.feed(piece) for piece in pieces]
    found.append(texts.finish())
    assert "".join(found) == TEXT
    assert "".join(found).count("\ufffd") == 1


@pytest.mark.parametrize("output", list(TextOutput))
def test_what_never_gets_a_character_is_shown_as_one_at_the_end(output: TextOutput) -> None:
    texts = texts_of(output)
    assert (texts.feed("a🙂".encode()[:-1]), texts.finish()) == ("a", "\ufffd")


def test_the_prompt_is_left_out_of_the_whole_text() -> None:
    texts = texts_of(TextOutput.CUMULATIVE, "Say: ")
    assert [texts.feed(raw) for raw in (b"Say: a", b"", b"Say: a b")] == ["a", "", " b"]


def test_an_engine_that_takes_words_back_is_an_error() -> None:
    texts = texts_of(TextOutput.CUMULATIVE)
    texts.feed(b"hello")
    with pytest.raises(MalformedResponse, match="continuation"):
        texts.feed(b"help")


@pytest.mark.parametrize(
    ("reason", "final", "end"),
    [
        (b"None", False, None),
        (b"None", True, EngineEnd.UNKNOWN),
        (b"stop", True, EngineEnd.STOP),
        (b"length", False, EngineEnd.LENGTH),
        (b"abort", True, EngineEnd.CANCELLED),
    ],
)
def test_a_message_is_read(reason: bytes, final: bool, end: EngineEnd | None) -> None:
    message = response(
        final=final,
        text_output=("BYTES", [1], [b"hi"]),
        finish_reason=("BYTES", [1], [reason]),
        num_output_tokens=("UINT32", [1], [2]),
    )
    delta = TextReader(texts_of(TextOutput.DELTA)).read(message)
    assert (delta.text, delta.made, delta.end) == ("hi", 2, end)


@pytest.mark.parametrize(
    "message",
    [
        response(),
        response(text_output=("BYTES", [2], [b"a", b"b"])),
        response(text_output=("BYTES", [1], [b"a"]), finish_reason=("BYTES", [1], [b"tired"])),
    ],
)
def test_what_breaks_the_contract_is_an_error(message: object) -> None:
    with pytest.raises(MalformedResponse):
        TextReader(texts_of(TextOutput.DELTA)).read(message)  # type: ignore[arg-type]


def test_an_empty_last_message_ends_the_answer() -> None:
    assert TextReader(texts_of(TextOutput.DELTA)).read(response(final=True)).end is EngineEnd.UNKNOWN
