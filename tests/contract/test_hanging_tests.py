"""The rule of every suite that no test hangs: `tests/conftest.py`, in a run of its own whose limits are short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RULES = Path(__file__).parents[1] / "conftest.py"
SHORTER = {'"unit": 120.0': '"unit": 3.0', "_AGAIN_S = 5.0": "_AGAIN_S = 0.2"}
ENDS_S = 90
HUNG = "Failed: This hangs: it has not ended after 3 s."
INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
TESTS = """
import asyncio
import signal
import threading

import pytest


def hang():
    threading.Event().wait()


@pytest.fixture
def hangs_before():
    hang()


@pytest.fixture
def hangs_behind():
    yield
    hang()


def test_call():
    hang()


async def test_coroutine():
    await asyncio.Event().wait()


def test_swallows():
    for _ in range(2):
        try:
            hang()
        except BaseException:
            pass
    hang()


def test_setup(hangs_before):
    pass


def test_teardown(hangs_behind):
    pass


def test_after_all_of_them():
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left <= 3
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Run tests that hang under the rules of this repository; what does not end at all is killed."""
    root = tmp_path_factory.mktemp("run")
    rules = RULES.read_text(encoding="utf-8")
    for limit, shorter in SHORTER.items():
        assert limit in rules
        rules = rules.replace(limit, shorter)
    (root / "tests" / "unit").mkdir(parents=True)
    (root / "tests" / "conftest.py").write_text(rules, encoding="utf-8")
    (root / "tests" / "unit" / "test_hangs.py").write_text(TESTS, encoding="utf-8")
    (root / "pytest.ini").write_text(INI, encoding="utf-8")
    environ = os.environ | {"COLUMNS": "300"}  # noqa: TID251 - so that nothing of what it says is cut off
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider", "tests/unit"]
    return subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=ENDS_S, check=False)


@pytest.mark.parametrize("name", ["call", "coroutine", "swallows"])
def test_a_test_that_hangs_fails(run: subprocess.CompletedProcess[str], name: str) -> None:
    assert f"FAILED tests/unit/test_hangs.py::test_{name} - {HUNG}" in run.stdout


@pytest.mark.parametrize("name", ["setup", "teardown"])
def test_a_set_up_or_a_clean_up_that_hangs_is_an_error(run: subprocess.CompletedProcess[str], name: str) -> None:
    assert f"ERROR tests/unit/test_hangs.py::test_{name} - {HUNG}" in run.stdout


def test_the_tests_behind_those_that_hang_have_all_of_their_time(run: subprocess.CompletedProcess[str]) -> None:
    assert "PASSED tests/unit/test_hangs.py::test_after_all_of_them" in run.stdout
    assert run.returncode == 1
