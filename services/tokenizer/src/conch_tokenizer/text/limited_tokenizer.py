"""One model's tokenizer, and what it refuses: texts that are too long, and ids that the model does not have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_reader import PictureReader
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

_LONG = 20_000
"""Characters or ids from which on the child says that it has begun to encode: below, it is done before anyone asks."""


@dataclass(frozen=True, slots=True)
class LimitedTokenizer:
    """One model's tokenizer and renderer, what reads pictures, and the limits of a request."""

    model: ModelTokenizer
    renderer: ChatRenderer
    max_text_bytes: int
    announce_encoding: Callable[[], None]
    """Called before long work that is not the template's."""
    pictures: PictureReader = field(default_factory=PictureReader)
    """Reads pictures; the same one for all requests remembers them."""

    def check_fits(self, text: str, context: int | None, *, param: str) -> None:
        """Refuse a text that is longer than a context for certain, without encoding it; raises InvalidRequest."""
        if context is None or len(text) <= context or self.model.reach is None:
            return
        tokens = self.model.reach.at_least(text)
        if tokens > context:
            raise InvalidRequest(
                f"This model's maximum context length is {context} tokens. However, your text has at least {tokens} "
                "tokens. Please reduce its length.",
                param=param,
                code="context_length_exceeded",
            )

    def check_size(self, texts: Sequence[str], *, param: str) -> None:
        """Refuse more text than a request may hold; raises InvalidRequest."""
        characters = sum(map(len, texts))
        if characters * 4 > self.max_text_bytes:
            # Counted exactly only where it matters: a template can make a text of a gigabyte.
            too_long = characters > self.max_text_bytes
            size = characters if too_long else sum(len(text.encode()) for text in texts)
            if size > self.max_text_bytes:
                raise InvalidRequest(
                    f"expected at most {self.max_text_bytes} bytes of text, found {size} or more",
                    param=param,
                    code="context_length_exceeded",
                )
        if characters > _LONG:
            self.announce_encoding()

    def check_ids(self, ids: Sequence[int], *, param: str) -> None:
        """Refuse ids that the model does not have; raises InvalidRequest."""
        size = self.model.vocab_size
        if ids and not 0 <= min(ids) <= max(ids) < size:
            wrong = next(token for token in ids if not 0 <= token < size)
            raise InvalidRequest(f"expected token ids from 0 to {size - 1}, found {wrong}", param=param)
        if len(ids) > _LONG:
            self.announce_encoding()
