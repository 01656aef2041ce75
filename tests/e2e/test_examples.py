"""The example programs run as they are."""

import os
import subprocess
import sys

from testkit.processes.conch_up import ROOT


def test_the_example_embeds_reranks_and_asks_the_language_model(base_url: str) -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "rag.py")],
        env={**os.environ, "OPENAI_BASE_URL": base_url},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines() == [
        "Context: The capital of France is Paris.",
        "Answer: The capital of France is Paris.",
    ]
