"""One model's tokenizer, loaded from its files by transformers.

Ids and texts are those of Hugging Face's own `encode()`, `decode()` and `apply_chat_template()`, because the same class
does the work; where it would only pass a text on to `tokenizers`, the text goes there at once. Only children import
this module: transformers takes more than a second to import. `chat_template` renders.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from conch_tokenizer.errors import BundleUnreadable
from conch_tokenizer.pictures.model_pictures import ModelPictures, model_pictures
from conch_tokenizer.pictures.row_pictures import RowPictures, row_pictures
from conch_tokenizer.text.minimum_tokens import reach


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """The ids of a text, or of a pair of texts."""

    ids: Sequence[int]
    second: int | None
    """Where the second text begins, for models that tell the two apart."""


class ModelTokenizer:
    """Encodes and decodes as one model's tokenizer does."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        embeddings: int = 0,
        pictures: ModelPictures | None = None,
        row_pictures: RowPictures | None = None,
    ) -> None:
        self.transformers = tokenizer
        self.pictures = pictures
        """How the model sees pictures among texts; None: it sees none."""
        self.row_pictures = row_pictures
        """How it sees pictures that are rows of their own; None: it makes no rows of them."""
        self.vocab_size = max(embeddings, 1 + max(tokenizer.get_vocab().values()))
        """Ids at or above it do not exist. Models often have more embeddings than their tokenizer has words."""
        self._backend = _backend(tokenizer)
        self.reach = None if self._backend is None else reach(self._backend)
        """How much of a text one token can stand for; None where that cannot be said."""
        self._prefix, self._suffix = self._special_ids_around_a_text()
        added = self._prefix[:1] == [tokenizer.bos_token_id]
        self.added_bos = str(tokenizer.bos_token) if added else ""
        """The BOS that this tokenizer puts before a text by itself; empty where it puts none."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the ids of a text."""
        if self._backend is None:
            slowly: list[int] = self.transformers.encode(text, add_special_tokens=add_special_tokens)
            return slowly
        # Both are left over from other calls: rows that were cut, and a control token that was encoded as letters.
        self._backend.no_truncation()
        self._backend.encode_special_tokens = self.transformers.split_special_tokens
        # Unlike `encode` it does not work out where in the text each token is, which nobody asks for.
        (encoded,) = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encoded.ids
        return ids

    def encode_rows(
        self,
        texts: list[str],
        pairs: list[str] | None,
        *,
        add_special_tokens: bool,
        truncate: int | None,
        side: str | None = None,
    ) -> list[EncodedRow]:
        """Return the ids of texts, or of pairs of texts, each cut at so many with its special tokens kept.

        They are cut on this side, `left` or `right`; without one, on the tokenizer's own.
        """
        if self._backend is None:
            own = self.transformers.truncation_side
            self.transformers.truncation_side = side or own
            try:
                return self._encode_rows_slowly(texts, pairs, add_special_tokens=add_special_tokens, truncate=truncate)
            finally:
                self.transformers.truncation_side = own
        self._backend.encode_special_tokens = self.transformers.split_special_tokens
        if truncate is None:
            self._backend.no_truncation()
        else:
            self._backend.enable_truncation(truncate, direction=side or self.transformers.truncation_side)
        inputs = texts if pairs is None else list(zip(texts, pairs, strict=True))
        encoded = self._backend.encode_batch_fast(inputs, add_special_tokens=add_special_tokens)
        return [EncodedRow(row.ids, None if pairs is None else _second(row.type_ids)) for row in encoded]

    def _encode_rows_slowly(
        self, texts: list[str], pairs: list[str] | None, *, add_special_tokens: bool, truncate: int | None
    ) -> list[EncodedRow]:
        encoded = self.transformers(
            texts,
            pairs,
            add_special_tokens=add_special_tokens,
            truncation=truncate is not None,
            max_length=truncate,
            return_attention_mask=False,
            return_token_type_ids=pairs is not None,
        )
        types = encoded["token_type_ids"] if pairs is not None else [[]] * len(texts)
        return [EncodedRow(ids, _second(kinds)) for ids, kinds in zip(encoded["input_ids"], types, strict=True)]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of ids, special tokens kept unless they are to be skipped."""
        return cast(str, self.transformers.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def token_strings(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return each id as the vocabulary spells it; an id without a word is empty."""
        return tuple(token or "" for token in self.transformers.convert_ids_to_tokens(list(ids)))

    def surround(self, ids: list[int]) -> list[int]:
        """Return the ids with the special tokens that `add_special_tokens` puts around a text."""
        return [*self._prefix, *ids, *self._suffix]

    def _special_ids_around_a_text(self) -> tuple[list[int], list[int]]:
        bare = self.encode("a", add_special_tokens=False)
        whole = self.encode("a", add_special_tokens=True)
        start = next(i for i in range(len(whole) + 1) if whole[i : i + len(bare)] == bare)
        return whole[:start], whole[start + len(bare) :]


def _second(types: Sequence[int]) -> int | None:
    return types.index(1) if 1 in types else None


def load(folder: Path) -> ModelTokenizer:
    """Load the tokenizer in a folder; raises BundleUnreadable."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        if (template := _processors_template(folder)) is not None:
            tokenizer.chat_template = template
        pictures = model_pictures(folder, tokenizer)
        size, rows = _embeddings(folder / "config.json"), row_pictures(folder)
        return ModelTokenizer(tokenizer, embeddings=size, pictures=pictures, row_pictures=rows)
    except Exception as exc:  # a wrong file makes transformers raise anything
        raise BundleUnreadable(
            f"transformers cannot load the tokenizer: {type(exc).__name__}: {str(exc)[:300]}"
        ) from exc


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer | None:
    """Return the tokenizer inside, unless the class around it adds something of its own to encoding."""
    of_class, plain = type(tokenizer), PreTrainedTokenizerFast
    if not isinstance(tokenizer, plain) or any(
        getattr(of_class, name) is not getattr(plain, name) for name in ("encode", "_encode_plus")
    ):
        return None
    inner: Tokenizer = tokenizer.backend_tokenizer
    inner.no_truncation()
    inner.no_padding()
    return inner


def _embeddings(config: Path) -> int:
    if not config.is_file():
        return 0
    settings = json.loads(config.read_text())
    sizes = (part.get("vocab_size") for part in (settings, settings.get("text_config") or {}))
    return next((size for size in sizes if isinstance(size, int)), 0)


def _processors_template(folder: Path) -> str | None:
    """Return the template of a model with pictures, as processors kept it before there was `chat_template.jinja`."""
    file = folder / "chat_template.json"
    if not file.is_file() or (folder / "chat_template.jinja").is_file():
        return None
    template = json.loads(file.read_text(encoding="utf-8")).get("chat_template")
    return template if isinstance(template, str) else None
