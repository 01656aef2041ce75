"""Pieces joined are the decode of all ids at once, for every family of tokenizer and every grouping."""

import itertools
import random

import pytest
from tokenizers import Tokenizer, decoders

from conch_llm_worker.text.detokenizer import WindowDetokenizer
from testkit.models.vocabularies import (
    BYTE_ADDED,
    BYTE_EOS,
    PIECE_BYTE_0,
    PIECES,
    byte_level,
    byte_level_tokenizer,
    sentence_piece_tokenizer,
    vocabulary_of,
    word_piece_tokenizer,
)

ROUNDS = 300


def odd_byte_level() -> Tokenizer:
    """Return a byte-level tokenizer in a chain that no table can stand for."""
    tokenizer = byte_level_tokenizer()
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


TOKENIZERS = {
    "byte level": byte_level_tokenizer(),
    "llama": sentence_piece_tokenizer("llama"),
    "gemma": sentence_piece_tokenizer("gemma"),
    "metaspace": sentence_piece_tokenizer("metaspace"),
    "word piece": word_piece_tokenizer(),
}


def pieces(tokenizer: Tokenizer, ids: list[int], cuts: list[int], *, skip: bool) -> list[str]:
    detokenizer = vocabulary_of(tokenizer).detokenizer(skip_special_tokens=skip)
    bounds = [0, *cuts, len(ids)]
    texts = [detokenizer.feed(ids[start:end]) for start, end in itertools.pairwise(bounds) if end > start]
    return [*texts, detokenizer.finish()]


@pytest.mark.parametrize("skip", [True, False], ids=["skipping special tokens", "keeping special tokens"])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_pieces_joined_equal_the_decode_of_all_ids(name: str, skip: bool) -> None:
    tokenizer, chance = TOKENIZERS[name], random.Random(7)
    for _ in range(ROUNDS):
        ids = [chance.randrange(tokenizer.get_vocab_size()) for _ in range(chance.randrange(1, 14))]
        if name == "llama" and chance.random() < 0.5:  # text as it is: mostly whole characters in bytes
            raw = chance.choice(["你好", "é", "🙂", "a 🙂你"]).encode()
            ids[1:1] = [PIECE_BYTE_0 + byte for byte in raw]
        cuts = sorted(chance.sample(range(len(ids)), chance.randrange(len(ids))))
        expected = tokenizer.decode(ids, skip_special_tokens=skip)
        assert "".join(pieces(tokenizer, ids, cuts, skip=skip)) == expected, (ids, cuts)


def test_a_chain_without_a_table_still_gives_whole_characters() -> None:
    tokenizer = odd_byte_level()
    ids = list(" a 你 🙂b".encode())
    texts = pieces(tokenizer, ids, list(range(1, len(ids))), skip=True)
    assert "".join(texts) == tokenizer.decode(ids)
    assert "\ufffd" not in "".join(texts)


@pytest.mark.parametrize("text", ["你好吗", "naïve 🙂 café", "한국어"])
def test_a_character_comes_whole_with_its_last_byte(text: str) -> None:
    detokenizer = byte_level().detokenizer(skip_special_tokens=True)
    shown = [piece for byte in text.encode() if (piece := detokenizer.feed((byte,)))]
    assert shown == list(text)


@pytest.mark.parametrize("text", ["hello w｜orld and more", "你好 " * 20, "a long beginning 🙂"])
def test_a_character_that_a_long_part_ends_in_is_not_lost(text: str) -> None:
    ids = list(text.encode())
    for cut in range(1, len(ids)):
        assert "".join(pieces(odd_byte_level(), ids, [cut], skip=True)) == text.removeprefix(" "), cut


def test_bytes_that_never_complete_come_out_at_the_end() -> None:
    assert pieces(byte_level_tokenizer(), list(b"a\xe4\xbd"), [1, 2], skip=True) == ["a", "", "", "\ufffd"]


def test_a_broken_run_of_byte_tokens_is_replaced_whole_as_the_full_decode_does() -> None:
    run = [PIECE_BYTE_0 + byte for byte in "你".encode()] + [PIECE_BYTE_0 + 0xFF]
    texts = pieces(TOKENIZERS["llama"], [*run, PIECES.index("a")], [1, 2, 3, 4], skip=True)
    assert texts == ["", "", "", "", "\ufffd" * 4 + "a", ""]


def test_special_tokens_are_silent_only_when_skipped() -> None:
    tokenizer = byte_level_tokenizer()
    ids = [*b"hi", BYTE_EOS, BYTE_ADDED]
    assert "".join(pieces(tokenizer, ids, [2, 3], skip=True)) == "hi<tool>"
    assert "".join(pieces(tokenizer, ids, [2, 3], skip=False)) == "hi<|end|><tool>"


def test_ids_that_no_token_has_are_silent() -> None:
    assert "".join(pieces(byte_level_tokenizer(), [104, 99999, 105], [1, 2], skip=True)) == "hi"


def test_the_first_space_of_a_text_is_dropped_and_later_ones_are_kept() -> None:
    hello, world = PIECES.index("▁Hello"), PIECES.index("▁world")
    assert pieces(TOKENIZERS["llama"], [hello, world, hello], [1, 2], skip=True) == ["Hello", " world", " Hello", ""]


def test_no_space_comes_between_two_special_tokens_when_none_is_wanted() -> None:
    vocabulary, ids = vocabulary_of(word_piece_tokenizer()), [2, 1, 1, 4, 1]
    texts = []
    for spaces in (True, False):
        one = vocabulary.detokenizer(skip_special_tokens=False, spaces=spaces)
        texts.append("".join([*(one.feed([id_]) for id_ in ids), one.finish()]))
    assert texts == ["play [SEP] [SEP] the [SEP]", "play [SEP][SEP] the [SEP]"]


def test_a_character_that_does_not_end_is_given_up_after_some_tokens() -> None:
    text = WindowDetokenizer(lambda ids: "\ufffd" * bool(ids), frozenset(), lambda _: False, fragile=True)
    pieces = [text.feed([1]) for _ in range(8)]
    assert pieces == [""] * 7 + ["\ufffd"]
