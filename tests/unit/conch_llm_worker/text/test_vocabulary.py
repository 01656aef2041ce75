import pytest

from conch_kit.bundles.tokenizer_cache import TokenizerUnreadable
from conch_llm_worker.text.vocabulary import Vocabulary
from testkit.models.vocabularies import (
    BYTE_EOS,
    PIECE_BYTE_0,
    PIECES,
    byte_level,
    sentence_piece_tokenizer,
    vocabulary_of,
)


@pytest.mark.parametrize(
    ("token_id", "raw"), [(0x41, b"A"), (0xE4, b"\xe4"), (0x20, b" "), (BYTE_EOS, b"<|end|>"), (5000, b"")]
)
def test_a_byte_level_id_stands_for_its_bytes(token_id: int, raw: bytes) -> None:
    assert byte_level().token_bytes(token_id) == raw


@pytest.mark.parametrize(
    ("token_id", "raw"),
    [
        (PIECES.index("▁Hello"), b" Hello"),
        (PIECES.index("world"), b"world"),
        (PIECES.index("▁"), b" "),
        (PIECE_BYTE_0 + 0xE4, b"\xe4"),
    ],
)
def test_a_piece_stands_for_what_it_adds_inside_a_text(token_id: int, raw: bytes) -> None:
    assert vocabulary_of(sentence_piece_tokenizer()).token_bytes(token_id) == raw


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"not json", b'{"decoder": {"type": "ByteLevel"}}', b"\xff"])
def test_what_is_no_tokenizer_is_refused(data: bytes) -> None:
    with pytest.raises(TokenizerUnreadable, match="cannot be read"):
        Vocabulary.from_json(data)
