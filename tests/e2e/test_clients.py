"""The official clients of other APIs, in a process of their own, because they need other versions than the tests."""

import os
import subprocess
import sys
from pathlib import Path

from testkit.conch import ROOT


def test_official_clients_work_unchanged(base_url: str) -> None:
    packages = ROOT / ".venv" / "clients"
    assert (packages / "cohere").is_dir(), "Run hack/setup: it installs the clients."
    environment = {**os.environ, "PYTHONPATH": str(packages), "OPENAI_BASE_URL": base_url}  # noqa: TID251
    suite = Path(__file__).parent / "clients" / "check_clients.py"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", str(suite), "-q", "-p", "no:cacheprovider", "-o", "filterwarnings="],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
