"""The example model's tokenizer, loaded once, and the request pieces that many tests need."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load
from conch_tokenizer.text.operations import Workbench

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
def make_bench(model: ModelTokenizer, renderer: ChatRenderer, announced: list[str]) -> Callable[[int], Workbench]:
    def make(max_text_bytes: int = 4 * 1024**2) -> Workbench:
        return Workbench(model, renderer, max_text_bytes, lambda: announced.append("encoding"))

    return make


@pytest.fixture
def bench(make_bench: Callable[[], Workbench]) -> Workbench:
    return make_bench()
