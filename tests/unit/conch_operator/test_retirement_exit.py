"""With which exit status a retirement ends; what it does is in `test_retirement.py`."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from conch_kit.settings import StartupError
from conch_operator import retirement as module
from conch_operator.kubernetes.api.client import ApiError, NotLeading
from conch_operator.retirement import StatusesLeft, main

pytestmark = pytest.mark.usefixtures("kept_logging")


@pytest.mark.parametrize(
    ("failure", "status", "says"),
    [
        (None, 0, ""),
        (NotLeading(), 1, "an operator has the Lease again"),
        (ApiError(403, "forbidden"), 0, "forbidden. The statuses are left as they are."),
        (ApiError(404, "no such kind"), 0, "no such kind. The statuses are left as they are."),
        (ApiError(500, "etcd is away"), 1, "etcd is away"),
        (ApiError(0, "no answer"), 1, "no answer"),
        (StatusesLeft("of tiny"), 1, "of tiny"),
        (StartupError("no token"), 1, "no token"),
    ],
    ids=repr,
)
def test_a_release_is_removed_though_it_was_never_whole_and_not_while_statuses_are_left(
    failure: Exception | None,
    status: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def retire(*given: object) -> None:
        if failure is not None:
            raise failure

    monkeypatch.setattr(module, "load", lambda kind, environ: SimpleNamespace(log_level="INFO", settings_file=Path()))
    monkeypatch.setattr(module, "read_release", lambda file: SimpleNamespace(watch_namespaces=()))
    monkeypatch.setattr(module, "retire", retire)
    assert main() == status
    assert capsys.readouterr().err == (says and f"conch retire: {says}\n")
