"""Small tokenizers of the two great families, made without any file."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from conch_llm_worker.text.vocabulary import Vocabulary

BYTE_EOS = 256
"""The id of `<|end|>` in the byte-level tokenizer, whose id b is byte b for all others."""
BYTE_ADDED = 257
"""The id of `<tool>`, an added token that is not special."""
BYTE_VOCABULARY = 258
"""How many ids the byte-level tokenizer has."""


def byte_level_tokenizer() -> Tokenizer:
    """Return a byte-level tokenizer whose ids are bytes, and two added tokens."""
    alphabet = _byte_alphabet()
    tokenizer = Tokenizer(models.BPE(vocab={character: byte for byte, character in alphabet.items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens(["<tool>"])
    return tokenizer


def byte_level() -> Vocabulary:
    """Return its vocabulary."""
    return Vocabulary.from_json(byte_level_tokenizer().to_str().encode())


PIECES = ["<unk>", "<s>", "</s>", "▁", "▁Hello", "world", "▁world", "a", "▁▁a", "�"]
PIECE_BYTE_0 = len(PIECES)
"""The id of `<0x00>` in the SentencePiece-like tokenizer."""


def sentence_piece_tokenizer(kind: str = "llama") -> Tokenizer:
    """Return a tokenizer with leading-space marks; `llama` falls back to bytes, the others do not."""
    vocab = {piece: at for at, piece in enumerate(PIECES)}
    vocab |= {f"<0x{byte:02X}>": PIECE_BYTE_0 + byte for byte in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>"))
    replace, fallback, fuse = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()
    tokenizer.decoder = {
        "llama": lambda: decoders.Sequence([replace, fallback, fuse, decoders.Strip(" ", 1, 0)]),
        "gemma": lambda: decoders.Sequence([replace, fallback, fuse]),
        "metaspace": lambda: decoders.Metaspace(prepend_scheme="always"),
    }[kind]()  # type: ignore[no-untyped-call]
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def word_piece_tokenizer() -> Tokenizer:
    """Return a tokenizer whose words are joined by spaces and whose suffixes begin with ##."""
    pieces = ["[UNK]", "[SEP]", "play", "##ing", "the", ".", "##s"]
    tokenizer = Tokenizer(models.WordPiece(vocab={piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[SEP]"])
    return tokenizer


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary of any tokenizer."""
    return Vocabulary.from_json(tokenizer.to_str().encode())


def _byte_alphabet() -> dict[int, str]:
    """Return the characters that byte-level tokenizers write bytes with, after GPT-2's own definition."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        if byte not in alphabet:
            alphabet[byte] = chr(256 + len(alphabet) - len(kept))
    return alphabet
