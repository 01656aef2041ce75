"""What ends a session of `conch up` and what does not; what it does with its processes is in `integration/`."""

import asyncio
import io
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason
from conch_contracts.names import ModelId, ServedName
from conch_operator.local.console import Console
from conch_operator.local.services import GATEWAY
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.status_file import read_report
from conch_operator.local.supervisor import Command, Supervisor
from conch_operator.local.up_session import UpSession
from conch_operator.local.welcome import Caller
from conch_operator.reconcile.status import ModelStatus
from conch_operator.state import Desired
from testkit.builders.model_deployments import desired_model

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
async def session(tmp_path: Path) -> Any:
    options: Any = SimpleNamespace(services=None)
    nothing: Any = None
    return UpSession(options, StateFolder(tmp_path), nothing, nothing)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Give signals back to Python."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_first_signal_asks_and_a_second_one_kills(session: Any, number: signal.Signals) -> None:
    killed: list[str] = []
    engines = SimpleNamespace(kill=lambda: killed.append("engines"))
    session._services.processes = {"gateway": SimpleNamespace(kill=lambda: killed.append("gateway"))}
    session._obey_signals(engines)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(session._wake.wait(), 30)
    assert (session._stopping.is_set(), killed) == (True, [])
    session._wake.clear()
    os.kill(os.getpid(), number)
    await asyncio.wait_for(session._wake.wait(), 30)
    assert killed == ["engines", "gateway"]
    for each in SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(each)


def rounds(session: Any, reconcile: Any, supervisor: Any = None, url: str | None = None) -> Coroutine[Any, Any, None]:
    """Run rounds beside a gateway that runs, and serves at this URL if any; without a console nobody is told."""
    session._models = session._models or SimpleNamespace(current=None)
    session._console = session._console or SimpleNamespace(services=lambda *_: None, models=lambda *_: None)
    session._services.processes = {GATEWAY: SimpleNamespace(first_exit=None, phase="running", detail="")}
    session._services.url = lambda name: url
    reader: Any = SimpleNamespace(snapshot=SimpleNamespace(routes={}))
    return session._rounds(SimpleNamespace(reconcile=reconcile), supervisor, reader)  # type: ignore[no-any-return]


async def test_a_process_that_cannot_be_kept_running_by_a_fault_ends_the_session(session: Any) -> None:
    rested = asyncio.Event()

    async def command() -> Command:
        await rested.wait()
        raise ZeroDivisionError("nobody has thought of that")

    async def reconcile(*_: object) -> dict[str, object]:
        asyncio.get_running_loop().call_later(0.01, rested.set)  # when the round is over and the session rests
        return {}

    async def serve() -> None:
        async with Supervisor() as supervisor:
            supervisor.supervise("odd", command, session._wake.set)
            await rounds(session, reconcile, supervisor)

    serving = asyncio.create_task(serve())
    await asyncio.wait([serving], timeout=30)
    assert serving.done()
    failures = serving.exception()
    assert isinstance(failures, ExceptionGroup)
    assert failures.subgroup(ZeroDivisionError) is not None


async def test_a_model_that_is_taken_out_of_the_file_while_a_round_goes_on_ends_nothing(session: Any) -> None:
    both, one = Desired((desired_model("a"), desired_model("b"))), Desired((desired_model("a"),))
    seen: list[Desired] = []

    async def reconcile(desired: Desired, _before: object) -> dict[str, object]:
        seen.append(desired)
        session._models.current = one  # what reading the file does, whenever it has changed
        if len(seen) == 2:
            session._stopping.set()
        session._wake.set()
        return {model.id: ready(model.id) for model in desired.models}

    answers = io.StringIO()
    session._models = SimpleNamespace(current=both)
    session._console = Console(io.StringIO(), answers, Caller(Path("python")))
    await asyncio.wait_for(rounds(session, reconcile, url="http://gateway"), 30)
    assert seen == [both, one]
    report = read_report(session._state.status)
    assert report is not None
    assert [model.model_id for model in report.models] == ["local/a"]
    assert "http://gateway" in answers.getvalue()


async def test_rounds_take_half_of_the_time_at_most(session: Any) -> None:
    began: list[float] = []

    async def reconcile(*_: object) -> dict[str, object]:
        began.append(time.monotonic())
        await asyncio.sleep(0.05)
        session._wake.set()  # there is always something new
        if len(began) == 4:
            session._stopping.set()
        return {}

    await asyncio.wait_for(rounds(session, reconcile), 30)
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(began))


def ready(model: ModelId) -> ModelStatus:
    condition = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        reason=Reason.READY,
        message="",
        last_transition_time="2026-01-01T00:00:00Z",
    )
    names = (ServedName(model.rpartition("/")[2]),)
    return ModelStatus(
        model_id=model, served_names=names, replicas=1, ready_replicas=1, tokenizer_digest=None, conditions=(condition,)
    )
