import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import ModelId, ServedName
from conch_contracts.records import ModelKind
from conch_operator.local import console as console_module
from conch_operator.local.console import Console
from conch_operator.local.welcome import Caller
from conch_operator.state import EnginePhase

TINY = ModelId("local/tiny")


class Terminal:
    """A console, and what it has printed."""

    def __init__(self) -> None:
        self._steps, self.answers = io.StringIO(), io.StringIO()
        self.console = Console(self._steps, self.answers, Caller(Path("python")))

    @property
    def steps(self) -> list[str]:
        return [line.partition("] ")[2] for line in self._steps.getvalue().splitlines()]

    def models(self, *found: Any) -> None:
        self.console.models(dict.fromkeys([TINY] * len(found), *found))


def model(*, ready: int = 0, of: int = 1, reason: str = "Ready", message: str = "", said: bool = True) -> Any:
    condition = SimpleNamespace(reason=reason, message=message) if said else None
    return SimpleNamespace(
        ready=ready > 0,
        ready_replicas=ready,
        replicas=of,
        served_names=(ServedName("tiny"),),
        condition=lambda _: condition,
    )


def test_each_thing_is_said_once_when_it_changes() -> None:
    terminal = Terminal()
    for _ in range(2):
        terminal.models(model(ready=1))
    terminal.models(model(ready=2))
    terminal.models(model(ready=1, message="one\nline"))
    assert terminal.steps == [
        "local/tiny is Ready (1 of 1 engines)",
        "local/tiny is Ready (2 engines, 1 wanted)",
        "local/tiny is Ready (1 of 1 engines); one line",
    ]


def test_a_model_that_only_starts_is_told_of_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    terminal.models(model(said=False))
    terminal.models(model(reason=Reason.ENGINE_STARTING, message="Wait."))
    terminal.models(model(reason=Reason.ENGINE_EXITED, message="It broke."))
    assert terminal.steps == ["local/tiny is not ready: EngineExited: It broke."]
    monkeypatch.setattr(console_module, "_SILENT_S", -1.0)
    terminal.models(model(reason=Reason.ENGINE_STARTING, message="Wait."))
    assert terminal.steps[1:] == ["local/tiny is not ready: EngineStarting: Wait."]


def test_a_model_that_has_gone_is_new_when_it_comes_back() -> None:
    terminal = Terminal()
    terminal.models(model(ready=1))
    terminal.models()
    terminal.models(model(ready=1))
    ready = "local/tiny is Ready (1 of 1 engines)"
    assert terminal.steps == [ready, "local/tiny is no longer served", ready]


def test_services_are_told_of_when_they_serve_and_when_one_ends() -> None:
    terminal = Terminal()
    running, ended = (
        SimpleNamespace(phase=EnginePhase.RUNNING),
        SimpleNamespace(phase=EnginePhase.EXITED, detail="fell."),
    )
    processes: Any = {"gateway": running, "tokenizer": ended, "media": running}
    terminal.console.services(processes, {"gateway": "http://a", "tokenizer": "http://b"})
    assert terminal.steps == ["gateway serves at http://a", "tokenizer fell. It is started again."]


def test_how_to_call_what_is_served_is_printed_once_and_not_before() -> None:
    terminal, kinds = Terminal(), {TINY: ModelKind.LLM}
    terminal.console.welcome("http://a", {TINY: model()}, kinds)
    assert (terminal.steps, terminal.answers.getvalue()) == ([], "")
    for _ in range(2):
        terminal.console.welcome("http://a", {TINY: model(ready=1)}, kinds)
    assert terminal.steps == ["everything is ready: tiny"]
    assert terminal.answers.getvalue().count("http://a/v1/chat/completions") == 1
