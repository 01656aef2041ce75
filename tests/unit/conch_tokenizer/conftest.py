"""The example model's tokenizer, loaded once, and the request pieces that many tests need."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load

TINY_CHAT = Path(__file__).parents[3] / "examples" / "tiny-chat"


@pytest.fixture(scope="session")
def tiny_chat() -> Path:
    return TINY_CHAT


@pytest.fixture(scope="session")
def model() -> ModelTokenizer:
    return load(TINY_CHAT)


@pytest.fixture(scope="session")
def renderer(model: ModelTokenizer) -> ChatRenderer:
    return ChatRenderer(model)


@pytest.fixture
def announced() -> list[str]:
    return []


@pytest.fixture
def make_tokenizer(
    model: ModelTokenizer, renderer: ChatRenderer, announced: list[str]
) -> Callable[[int], LimitedTokenizer]:
    def make(max_text_bytes: int = 4 * 1024**2) -> LimitedTokenizer:
        return LimitedTokenizer(model, renderer, max_text_bytes, lambda: announced.append("encoding"))

    return make


@pytest.fixture
def tokenizer(make_tokenizer: Callable[[], LimitedTokenizer]) -> LimitedTokenizer:
    return make_tokenizer()
