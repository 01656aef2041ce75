import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason
from conch_contracts.names import ModelId, ServedName
from conch_operator.cli import status
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.status_file import write_report
from conch_operator.reconcile.status import ModelStatus

MODEL = ModelId("local/tiny")


def condition(
    kind: ConditionType, reason: Reason = Reason.READY, message: str = "", *, holds: bool = True
) -> Condition:
    held = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    at = "2026-01-01T00:00:00Z"
    return Condition(type=kind, status=held, reason=reason, message=message, last_transition_time=at)


def model(*conditions: Condition) -> ModelStatus:
    return ModelStatus(
        model_id=MODEL,
        served_names=(ServedName("tiny"),),
        replicas=1,
        ready_replicas=1,
        tokenizer_digest=None,
        conditions=conditions,
    )


def run(folder: Path, output: str = "table") -> int:
    return status.run(argparse.Namespace(state_dir=folder, output=output))


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[ModelStatus], tuple[int, list[str]]]:
    """Return what the command returns and prints while `conch up` knows this of a model."""

    def told(known: ModelStatus) -> tuple[int, list[str]]:
        state = StateFolder(tmp_path)
        with state.held():
            write_report(state.status, "http://localhost:8000", {}, {MODEL: known})
            return run(tmp_path), capsys.readouterr().out.splitlines()

    return told


def test_what_one_that_was_killed_has_left_is_no_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = StateFolder(tmp_path)
    write_report(state.status, None, {}, {})
    assert run(tmp_path) == 1
    assert "Nothing runs with the state folder" in capsys.readouterr().err
    with state.held():
        assert run(tmp_path) == 1


def test_what_is_for_programs_is_not_shown_to_people(told: Callable[[ModelStatus], tuple[int, list[str]]]) -> None:
    repeated = [condition(kind, holds=False) for kind in (ConditionType.RECONCILING, ConditionType.STALLED)]
    code, lines = told(model(condition(ConditionType.READY), *repeated))
    assert (code, lines[-1].split()) == (0, ["ok", "Ready", "Ready"])


def test_a_model_that_does_not_serve_is_a_failure_with_its_reason(
    told: Callable[[ModelStatus], tuple[int, list[str]]],
) -> None:
    code, lines = told(
        model(condition(ConditionType.READY, Reason.FOLDER_MISSING, "There is\nno folder.", holds=False))
    )
    assert (code, lines[-1].split(maxsplit=2)) == (1, ["FAIL", "Ready", "FolderMissing: There is no folder."])


@pytest.mark.parametrize(
    ("reason", "mark"), [(Reason.NEW_ENGINE_AVAILABLE, "ok"), (Reason.WAITING, "wait")], ids=["there", "under way"]
)
def test_what_is_under_way_waits(
    told: Callable[[ModelStatus], tuple[int, list[str]]], reason: Reason, mark: str
) -> None:
    _, lines = told(model(condition(ConditionType.PROGRESSING, reason)))
    assert lines[-1].split()[:2] == [mark, "Progressing"]
