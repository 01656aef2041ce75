"""`conch up` with a model that is downloaded first, from a server that speaks the Hub's protocol."""

from pathlib import Path

import pytest

from testkit.processes.conch_up import EXAMPLE, ConchUp, wait_until
from testkit.servers.hub import REPO, HubServer


def test_a_downloaded_model_is_served_and_need_not_be_downloaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(EXAMPLE.read_text().replace("path: tiny-chat", f"huggingFace: {{repo: {REPO}}}"))
    with HubServer(EXAMPLE.parent / "tiny-chat") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        hub.faults.status = 503
        conch = ConchUp(tmp_path / "state", file)
        conch.start()
        try:
            wait_until(lambda: "SourceUnreachable: The Hub answers 503" in conch.output(), "why it waits")
            hub.faults.status = None
            conch.wait_ready()
            assert "local/tiny-chat is Ready" in conch.output()
        finally:
            conch.stop()
        hub.faults.status = 503
        with ConchUp(tmp_path / "state", file) as again:
            assert again.models() == ["tiny-chat"]
