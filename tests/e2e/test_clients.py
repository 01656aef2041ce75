"""Clients of other makers, unchanged, in processes of their own, because they need other versions than the tests.

What they get is kept and must follow the schemas that OpenAI publishes.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.http.openai_schemas import check_answer
from testkit.http.recording_proxy import RecordingProxy, recording_proxy
from testkit.processes.conch_up import ROOT

SUITES = Path(__file__).parent / "clients"
PASSES = (SUITES / "langchain-passes.txt").read_text().splitlines()


@pytest.fixture
def api(base_url: str) -> Iterator[RecordingProxy]:
    """Return what stands before Conch; whatever clients ask of it, its answers follow the schemas."""
    with recording_proxy(base_url) as proxy:
        yield proxy
    assert proxy.answers
    for answer in proxy.answers:
        check_answer(answer.path, answer.status, answer.content_type, answer.body)


def passed(suite: str, packages: str, base_url: str, *plugins: str) -> list[str]:
    """Run a suite with a folder of packages and return what passed of it; nothing may fail."""
    folder = ROOT / ".venv" / packages
    assert folder.is_dir(), "Run `hack/setup tests`: it installs the clients."
    command = [sys.executable, "-m", "pytest", "-c", str(SUITES / "pytest.ini"), str(SUITES / suite), "-q", "-rA"]
    for plugin in plugins:
        command += ["-p", plugin]
    settings = {"PYTHONPATH": str(folder), "OPENAI_BASE_URL": base_url, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **settings},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-1000:]
    names = [line.partition("::")[2] for line in run.stdout.splitlines() if line.startswith("PASSED ")]
    assert names
    return names


@pytest.mark.parametrize(
    ("suite", "packages"),
    [("check_clients.py", "clients"), ("check_instructor.py", "clients"), ("check_agents.py", "frameworks")],
)
def test_official_clients_work_unchanged(api: RecordingProxy, suite: str, packages: str) -> None:
    passed(suite, packages, api.base_url)


def test_langchain_passes_what_it_passed(api: RecordingProxy) -> None:
    assert sorted(passed("check_langchain.py", "frameworks", api.base_url)) == PASSES


def test_every_answer_is_one_that_our_document_describes(base_url: str) -> None:
    passed("check_openapi.py", "frameworks", base_url, "_hypothesis_pytestplugin", "schemathesis.pytest.plugin")
