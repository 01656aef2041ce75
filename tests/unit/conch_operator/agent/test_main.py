import logging
import sys
from collections.abc import Iterator

import pytest

from conch_operator.agent import main as module


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Keep the logging of this process as it is."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("words", [[], ["pool"]])
def test_an_agent_without_its_settings_says_what_it_lacks(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["agent", *words])
    monkeypatch.setenv("CONCH_NO_SETTING_OF_ANY_AGENT", "1")
    assert module.main() == 1
    assert capsys.readouterr().err.startswith("conch-engine-agent: ")
