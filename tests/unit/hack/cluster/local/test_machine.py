import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.layout import Layout
from cluster.local.machine import Machine
from cluster.shell import Shell


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Give a machine whose components are programs that sleep as many seconds as they are called."""
    layout = Layout(tmp_path)
    layout.bin.mkdir()
    layout.log.mkdir()
    shutil.copy("/bin/sleep", layout.kube)
    found = Machine(layout, Shell.without_proxies(os.environ))  # noqa: TID251
    yield found
    for process in found.started:
        process.kill()
        process.wait()


def test_a_component_that_was_started_is_known_at_once_and_started_once(machine: Machine) -> None:
    for seconds in range(600, 620):
        name = str(seconds)
        machine.start(name, machine.layout.kube, name)
        assert machine.alive(name) == machine.started[-1].pid
        machine.start(name, machine.layout.kube, name)
    assert len(machine.started) == 20


def test_one_that_ends_at_once_is_not_waited_for(machine: Machine) -> None:
    machine.start("no number", machine.layout.kube, "no number")
    assert machine.started[0].wait() == 1
    assert machine.alive("no number") == 0
    assert "no number" in (machine.layout.log / "no number.log").read_text()
