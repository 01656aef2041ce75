"""The same SDK scenarios with the SDK's previous major version."""

import os
import subprocess
import sys
from pathlib import Path

from testkit.processes.conch_up import ROOT


def test_the_previous_major_version_of_the_sdk_passes_the_same_scenarios(base_url: str) -> None:
    previous = ROOT / ".venv" / "openai-previous"
    assert (previous / "openai").is_dir(), "Run hack/setup: it installs the SDK's previous major version."
    environment = {**os.environ, "PYTHONPATH": str(previous), "OPENAI_BASE_URL": base_url}  # noqa: TID251
    shown = subprocess.run(
        [sys.executable, "-c", "import openai; print(openai.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("2.")
    suite = Path(__file__).parent / "sdk"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", str(suite), "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
