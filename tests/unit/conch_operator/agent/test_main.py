import sys

import pytest

from conch_operator.agent import main as module

pytestmark = pytest.mark.usefixtures("kept_logging")


@pytest.mark.parametrize("words", [[], ["pool"]])
def test_an_agent_without_its_settings_says_what_it_lacks(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["agent", *words])
    monkeypatch.setenv("CONCH_NO_SETTING_OF_ANY_AGENT", "1")
    assert module.main() == 1
    assert capsys.readouterr().err.startswith("conch-engine-agent: ")
