from pathlib import Path
from types import SimpleNamespace

import pytest

from conch_contracts.conditions import Reason
from conch_operator.local.downloads import LONGEST_PAUSE_S, Downloads
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import RestartPolicy
from conch_operator.state import DesiredModel, EnginePhase, SourceFault
from testkit.builders.model_deployments import desired_model


class Noting:
    """Starts nothing, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.processes: list[SimpleNamespace] = []

    def supervise(self, name: str, command: object, changed: object, policy: RestartPolicy) -> SimpleNamespace:
        process = SimpleNamespace(phase=EnginePhase.RUNNING, detail="", cause="", stopped=False, policy=policy)
        process.stop = lambda: setattr(process, "stopped", True)
        self.processes.append(process)
        return process


def far(name: str = "far") -> DesiredModel:
    return desired_model(name, source={"huggingFace": {"repo": f"org/{name}"}})


@pytest.fixture
def supervisor() -> Noting:
    return Noting()


@pytest.fixture
def downloads(supervisor: Noting, tmp_path: Path) -> Downloads:
    return Downloads(supervisor, StateFolder(tmp_path), {}, lambda: None)  # type: ignore[arg-type]


def test_a_folder_that_is_here_is_not_downloaded(downloads: Downloads, supervisor: Noting, tmp_path: Path) -> None:
    here = desired_model()
    assert downloads.folder(here) == Path("/models/tiny")
    assert not downloads.lacks(here)
    assert downloads.folder(far()).is_relative_to(tmp_path)
    downloads.folder(far()).mkdir(parents=True)
    downloads.ensure([here, far()])
    assert supervisor.processes == []


def test_one_process_downloads_a_folder_until_nobody_wants_it(downloads: Downloads, supervisor: Noting) -> None:
    downloads.ensure([far(), far("further")])
    downloads.ensure([far(), far("further")])
    assert [process.stopped for process in supervisor.processes] == [False, False]
    assert supervisor.processes[0].policy == RestartPolicy(longest_pause_s=LONGEST_PAUSE_S, grace_s=2.0)
    downloads.ensure([far()])
    assert [process.stopped for process in supervisor.processes] == [False, True]
    downloads.ensure([far(), far("further")])
    assert [process.stopped for process in supervisor.processes] == [False, True, False]


def test_how_far_it_is_and_why_it_failed_is_told(downloads: Downloads, supervisor: Noting) -> None:
    downloads.ensure([far()])
    assert downloads.fault(far()) == SourceFault(Reason.DOWNLOADING, "The model's files are asked for.")
    (process,) = supervisor.processes
    process.phase, process.detail = EnginePhase.EXITED, "exited with status 1."
    again = " It is tried again."
    said = downloads.fault(far())
    assert said == SourceFault(Reason.DOWNLOAD_FAILED, f"The download exited with status 1.{again}")
    process.cause = "SourceNotFound: There is no org/far."
    assert downloads.fault(far()) == SourceFault(Reason.SOURCE_NOT_FOUND, f"There is no org/far.{again}")
