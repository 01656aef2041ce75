"""A grammar that cannot be compiled costs its own request alone, whatever is wrong."""

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_guidance.errors import UnusableGrammar
from conch_runtime_cpu.engine.grammar_compilation import GrammarCompilation
from conch_runtime_cpu.engine.response_tensors import PartialResponse
from conch_runtime_cpu.errors import ChannelClosed, EngineStopped
from conch_runtime_cpu.requests import GenerationRequest

WAIT_S = 60.0
GRAMMAR = Grammar(kind=GrammarKind.REGEX, definition="a")


class Engine:
    """Takes what it gets, or refuses it."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.taken: SimpleQueue[object] = SimpleQueue()

    def submit(self, request: GenerationRequest, channel: object) -> None:
        if self.failure is not None:
            raise self.failure
        self.taken.put(channel)


class Channel:
    """Keeps the error that it was sent; one that is closed says so."""

    def __init__(self, *, closed: bool = False) -> None:
        self.errors: SimpleQueue[str | None] = SimpleQueue()
        self._closed = closed

    def send(self, response: PartialResponse) -> None:
        self.errors.put(response.error)
        if self._closed:
            raise ChannelClosed("gone")


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def compilation(engine: Engine) -> Iterator[GrammarCompilation]:
    def no_compiler() -> Any:
        raise UnusableGrammar("This model knows none.")

    made = GrammarCompilation(engine, no_compiler)  # type: ignore[arg-type]
    made.start()
    yield made
    made.stop()
    assert not made._thread.is_alive()


def request(grammar: Grammar | None) -> GenerationRequest:
    sampling = SamplingParameters(max_tokens=1, temperature=0.0, grammar=grammar)
    return GenerationRequest(np.array([1], np.int64), sampling, seed=0)


def test_a_grammar_that_cannot_be_obeyed_is_the_requests_fault(compilation: GrammarCompilation) -> None:
    channel = Channel()
    compilation.submit(request(GRAMMAR), channel)  # type: ignore[arg-type]
    assert str(channel.errors.get(timeout=WAIT_S)).endswith("grammar: This model knows none.")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (EngineStopped("The engine has stopped accepting requests."), "The engine has stopped accepting requests."),
        (ZeroDivisionError(), "The grammar could not be compiled."),
    ],
)
def test_an_engine_that_takes_nothing_answers_and_the_thread_goes_on(
    failure: Exception, said: str, engine: Engine, compilation: GrammarCompilation
) -> None:
    engine.failure, refused, taken = failure, Channel(), Channel()
    compilation.submit(request(None), refused)  # type: ignore[arg-type]
    assert refused.errors.get(timeout=WAIT_S) == said
    engine.failure = None
    compilation.submit(request(None), taken)  # type: ignore[arg-type]
    assert engine.taken.get(timeout=WAIT_S) is taken


def test_a_client_that_has_gone_ends_nothing(engine: Engine, compilation: GrammarCompilation) -> None:
    gone, taken = Channel(closed=True), Channel()
    compilation.submit(request(GRAMMAR), gone)  # type: ignore[arg-type]
    gone.errors.get(timeout=WAIT_S)
    compilation.submit(request(None), taken)  # type: ignore[arg-type]
    assert engine.taken.get(timeout=WAIT_S) is taken
