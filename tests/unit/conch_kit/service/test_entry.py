"""How the process of a service begins and ends: its exit status, and the one line that says why."""

import asyncio

import pytest

from conch_kit.service.entry import enter, run
from conch_kit.settings import ServerSettings, StartupError

pytestmark = pytest.mark.usefixtures("kept_logging")


async def ends_with(error: BaseException | None) -> None:
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 0),
        (StartupError("The port is taken."), 1),
        (ZeroDivisionError(), 1),
        (asyncio.CancelledError(), 130),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_a_process_has_an_exit_status_whatever_ends_it(error: BaseException | None, status: int) -> None:
    assert run(ends_with(error)) == status


@pytest.mark.parametrize("wrapped", [False, True])
def test_why_a_process_cannot_start_is_one_sentence(wrapped: bool, caplog: pytest.LogCaptureFixture) -> None:
    error = StartupError("The port is taken.")
    run(ends_with(BaseExceptionGroup("tasks", [error]) if wrapped else error))
    assert [(record.message, record.exc_info) for record in caplog.records] == [("The port is taken.", None)]


def test_what_nobody_foresaw_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    run(ends_with(ZeroDivisionError()))
    assert [bool(record.exc_info) for record in caplog.records] == [True]


def test_settings_that_cannot_be_used_are_said_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def serve(settings: ServerSettings) -> None:
        raise AssertionError(settings)

    assert enter("conch-one", ServerSettings, serve, {"CONCH_PORT": "many"}) == 2  # type: ignore[arg-type]
    assert capsys.readouterr().err.startswith("conch-one: ")
