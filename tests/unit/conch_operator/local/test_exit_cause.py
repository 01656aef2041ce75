import json
from pathlib import Path

import pytest

from conch_operator.local.exit_cause import exit_cause

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
    assert exit_cause(log, 0) == words


def test_a_missing_log_says_nothing(tmp_path: Path) -> None:
    assert exit_cause(tmp_path / "none", 0) == ""
