"""No text is shorter in tokens than the bound says; where there is no bound, one token can be any text."""

import random
import sys
import unicodedata
from collections.abc import Callable

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from conch_tokenizer.text.minimum_tokens import MOST_SHRUNK, Reach, reach
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

ALPHABET = pre_tokenizers.ByteLevel.alphabet()
PIECES = (
    *("word ", "antidisestablishment", "   \t\n", "é", "e\u0301", "中文", "한", "\u1112\u1161\u11ab"),
    *("\u212a", "𝐀𝐁", "😀", "\x00", "\u3390", "<|im_end|>"),
)
FORMS: tuple[Callable[[], Normalizer], ...] = (
    normalizers.NFC,
    normalizers.NFD,
    normalizers.NFKC,
    normalizers.NFKD,
    normalizers.Lowercase,
)


def byte_level(normalizer: Normalizer | None = None, before: PreTokenizer | None = None) -> Tokenizer:
    """Return a tokenizer that spells words in bytes."""
    vocabulary = {token: index for index, token in enumerate([*sorted(ALPHABET), "wo", "Ġ" * 2])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("w", "o"), ("Ġ", "Ġ")]))
    byte_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = byte_words if before is None else pre_tokenizers.Sequence([before, byte_words])
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


def sentence_pieces(normalizer: Normalizer | None = None) -> Tokenizer:
    """Return a tokenizer as Llama 2 has it: no pre-tokenizer, and bytes for what it has no word for."""
    words = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", "w", "o", "▁w", "▁wo"]
    vocabulary = {token: index for index, token in enumerate(["<unk>", *words])}
    merges = [("▁", "w"), ("▁w", "o")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.normalizer = spaces if normalizer is None else normalizers.Sequence([normalizer, spaces])
    return tokenizer


def words(**options: object) -> Tokenizer:
    """Return a tokenizer that knows two letters."""
    return Tokenizer(models.BPE({"<unk>": 0, "a": 1, "b": 2, "ab": 3}, [("a", "b")], **options))


def with_token(token: AddedToken) -> Tokenizer:
    """Return a tokenizer with one more token."""
    tokenizer = byte_level()
    tokenizer.add_tokens([token])
    return tokenizer


BOUNDED = {
    "bytes": byte_level(),
    "bytes behind digits": byte_level(before=pre_tokenizers.Digits(individual_digits=True)),
    "bytes behind a split": byte_level(before=pre_tokenizers.Split(Regex(r"\s+"), "isolated")),
    "a long added token": with_token(AddedToken("<|" + "é" * 50 + "|>")),
    "bytes in pieces": sentence_pieces(),
    "unknown letters apart": words(unk_token="<unk>"),
    **{f"bytes in {form.__name__}": byte_level(form()) for form in FORMS},
    "pieces in NFKC": sentence_pieces(normalizers.NFKC()),
}
UNBOUNDED = {
    "an alphabet with a gap": Tokenizer(models.BPE({"a": 0}, [])),
    "unknown letters dropped": words(),
    "unknown letters together": words(unk_token="<unk>", fuse_unk=True),
    "whole words": Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>")),
    "pieces of words": Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")),
    "the likeliest pieces": Tokenizer(models.Unigram([("<unk>", 0.0)], unk_id=0)),
    "blanks removed by a split": byte_level(before=pre_tokenizers.Split(Regex(r"\s+"), "removed")),
    "blanks removed": byte_level(before=pre_tokenizers.Whitespace()),
    "blanks stripped": byte_level(normalizers.Strip()),
    "accents stripped": byte_level(normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])),
    "control characters removed": byte_level(normalizers.BertNormalizer()),
    "a replacement by less": byte_level(normalizers.Replace("word", "w")),
    "a replacement of any number": byte_level(normalizers.Replace(Regex(r"\s+"), "        ")),
    "a token that takes blanks along": with_token(AddedToken("<mask>", lstrip=True)),
}


@pytest.mark.parametrize("tokenizer", BOUNDED.values(), ids=BOUNDED)
def test_no_text_has_fewer_tokens_than_the_bound_says(tokenizer: Tokenizer) -> None:
    found, chance = reach(tokenizer), random.Random(7)
    assert found is not None
    texts = [*PIECES, *("".join(chance.choices(PIECES, k=chance.randint(1, 60))) for _ in range(300))]
    texts += ["".join(map(chr, chance.sample(range(0xD800), 40))) for _ in range(200)]
    for text in texts:
        assert found.at_least(text) <= len(tokenizer.encode(text).ids), text


@pytest.mark.parametrize("tokenizer", UNBOUNDED.values(), ids=UNBOUNDED)
def test_where_text_can_vanish_there_is_no_bound(tokenizer: Tokenizer) -> None:
    assert reach(tokenizer) is None


def test_the_example_model_has_a_bound(model: ModelTokenizer) -> None:
    assert model.reach == Reach(bytes_per_token=33 * MOST_SHRUNK, ends_with_words=True)


@pytest.mark.parametrize(
    ("tokenizer", "tokens"),
    [
        (byte_level(), 1_000),
        (sentence_pieces(), 1_000),
        (with_token(AddedToken("in a row")), 250),
        (with_token(AddedToken("in-a-row, really")), 1_000),
        (byte_level(before=pre_tokenizers.Metaspace("▁")), 1_000),
        (byte_level(before=pre_tokenizers.Metaspace("_")), 500),
        (byte_level(normalizers.Replace("a ", "and")), 500),
    ],
    ids=["bytes", "pieces", "words", "a word and a comma", "a blank spelt so", "otherwise", "another word"],
)
def test_a_text_has_as_many_tokens_as_words_unless_one_can_be_several(tokenizer: Tokenizer, tokens: int) -> None:
    found = reach(tokenizer)
    assert found is not None
    assert found.at_least("a " * 1_000) == tokens


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_no_normal_form_shrinks_a_text_more_than_the_bound_says(form: str) -> None:
    """A text is longest when every character that its normal form comes apart into is written in its longest way."""
    apart = "NFD" if form in ("NFC", "NFD") else "NFKD"
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    longest: dict[str, int] = {}
    several: list[tuple[str, str]] = []
    for character in characters:
        pieces = unicodedata.normalize(apart, character)
        if len(pieces) == 1:
            longest[pieces] = max(longest.get(pieces, 0), len(character.encode()))
        else:
            several.append((character, pieces))
    assert all(len(character.encode()) <= sum(longest[piece] for piece in pieces) for character, pieces in several)
    for character in characters:
        if unicodedata.normalize(form, character) == character:
            source = sum(longest[piece] for piece in unicodedata.normalize(apart, character))
            assert source <= MOST_SHRUNK * len(character.encode()), character


def test_small_letters_are_not_shorter_than_the_bound_says() -> None:
    characters = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    assert all(len(one.encode()) <= MOST_SHRUNK * len(one.lower().encode()) for one in characters)
