from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from testkit.processes.conch_up import ConchUp, example_text


@pytest.fixture
def models_file(tmp_path: Path) -> Path:
    """Return a copy of the example that a test may edit."""
    file = tmp_path / "models.yaml"
    file.write_text(example_text())
    return file


@pytest.fixture
def conch(tmp_path: Path, models_file: Path) -> Iterator[ConchUp]:
    """Yield a Conch that serves the example, Ready."""
    with ConchUp(tmp_path / "state", models_file) as running:
        yield running


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run; a zombie that nobody has waited for does not."""
    return [process for process in processes if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
