"""The small parts of the Local cluster that need no process."""

import json
from pathlib import Path

import pytest

from conch_contracts.names import ModelId
from conch_operator.local.exit_cause import exit_cause
from conch_operator.local.orphan_guard import main as guard
from conch_operator.local.state_folder import StateFolder, StateInUse

ERROR = {"level": "ERROR", "message": "The process ends.", "exception": "Traceback\n  File x\nTypeError: no"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], ""),
        (["one", "two", ""], "two"),
        ([json.dumps(ERROR), json.dumps({"level": "INFO", "message": "Stopped."})], "The process ends. TypeError: no"),
        ([json.dumps({"level": "ERROR", "message": "Port taken."})], "Port taken."),
        (["x" * 500], "x" * 400 + "…"),
        ([json.dumps({"level": "INFO", "message": "Served."})], ""),
        (
            ["bind: Address already in use", json.dumps({"level": "INFO", "message": "x"})],
            "bind: Address already in use",
        ),
        ([json.dumps(ERROR), *[json.dumps({"level": "INFO", "message": "x"})] * 50], "The process ends. TypeError: no"),
        (["Traceback", "ValueError: no weights", "  in the folder", "Bye."], "ValueError: no weights"),
        (["E1122 05:00:00 shm.cc] CudaDriverHelper has not been initialized.", "Started."], "Started."),
        ([json.dumps({"level": "INFO", "message": "x" * 1000})] * 100, ""),
        (["# Fatal error, can't open config file", "# Bye."], "# Fatal error, can't open config file"),
        (
            [
                "E1121 10:00:00 failed to load 'm': no GPU",
                "I1121 10:00:01 unloading",
                "error: creating server: Internal",
            ],
            "E1121 10:00:00 failed to load 'm': no GPU",
        ),
    ],
)
def test_the_reason_is_found_at_the_end_of_a_log(tmp_path: Path, lines: list[str], words: str) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(lines))
    assert exit_cause(log) == words


def test_a_missing_log_says_nothing(tmp_path: Path) -> None:
    assert exit_cause(tmp_path / "none") == ""


def test_a_second_holder_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    assert not state.is_held()
    with state.held():
        assert state.is_held()
        with pytest.raises(StateInUse, match=r"\d+"), StateFolder(tmp_path / "state").held():
            pass
    assert not state.is_held()


def test_a_model_keeps_the_time_when_it_was_first_seen(tmp_path: Path) -> None:
    a, b = ModelId("local/a"), ModelId("local/b")
    state = StateFolder(tmp_path / "state")
    with state.held():
        assert state.first_seen({a: 5}) == {a: 5}
        assert state.first_seen({a: 9, b: 9}) == {a: 5, b: 9}
        assert state.first_seen({b: 11}) == {b: 9}
        assert state.first_seen({a: 12}) == {a: 12}


def test_the_guard_removes_the_shared_memory_that_it_was_told_of(tmp_path: Path) -> None:
    for name in ("conch_1_a", "conch_1_b", "other"):
        (tmp_path / name).write_bytes(b"")
    guard(["shm conch_1_\n"], shared_memory=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
