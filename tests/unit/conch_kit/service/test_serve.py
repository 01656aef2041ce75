"""How a service ends: what it does at a signal has a time, a second signal ends that, and nothing is left behind."""

import asyncio
import gc
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from conch_kit.http.admin import Health
from conch_kit.http.asgi import Receive, Scope, Send
from conch_kit.service.serve import serve
from conch_kit.settings import ServerSettings
from testkit.waiting import eventually


class Drain:
    """Work at a signal that never ends by itself."""

    def __init__(self) -> None:
        self.begun, self.cut = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cut.set()


@pytest.fixture(autouse=True)
def collections() -> Iterator[None]:
    """Have garbage collected as before, which a service changes for its whole process."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    return tmp_path / "ready.json"


async def no_app(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nobody asks")


def service(ready: Path, on_drain: Callable[[], Awaitable[None]] | None = None, **settings: Any) -> asyncio.Task[None]:
    given = {"host": "127.0.0.1", "port": 0, "admin_host": "127.0.0.1", "admin_port": 0, "ready_file": ready}
    serving = serve(
        no_app,
        ServerSettings.model_validate(given | settings),
        health=Health(lambda: True, lambda: None),
        metrics=CollectorRegistry(),
        on_drain=on_drain,
    )
    return asyncio.create_task(serving)


def said(ready: Path) -> int | None:
    """Return the process id that a service has written down; None where there is no file of it, nor a draft."""
    (file,) = list(ready.parent.iterdir()) or [None]
    return None if file is None else int(json.loads(file.read_text())["pid"])


def tell(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


async def test_what_is_done_at_a_signal_has_the_time_of_the_drain(ready: Path) -> None:
    drain = Drain()
    serving = service(ready, drain, drain_s=0.05)
    await eventually(ready.exists, "the service")
    tell()
    await asyncio.wait_for(serving, 30)
    assert drain.begun.is_set()
    await asyncio.wait_for(drain.cut.wait(), 30)


async def test_a_second_signal_ends_what_is_done_at_the_first(ready: Path) -> None:
    drain = Drain()
    serving = service(ready, drain, drain_s=3600)
    await eventually(ready.exists, "the service")
    tell()
    await asyncio.wait_for(drain.begun.wait(), 30)
    tell()
    await asyncio.wait_for(serving, 30)


async def test_after_two_signals_at_once_nothing_is_begun(ready: Path) -> None:
    drain = Drain()
    serving = service(ready, drain, drain_s=3600)
    await eventually(ready.exists, "the service")
    tell(signal.SIGTERM)
    tell(signal.SIGINT)
    await asyncio.wait_for(serving, 30)
    assert not drain.begun.is_set()


async def test_what_fails_at_a_signal_is_told(ready: Path) -> None:
    async def failing() -> None:
        raise ZeroDivisionError

    serving = service(ready, failing)
    await eventually(ready.exists, "the service")
    tell()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(serving, 30)
    assert said(ready) is None


async def test_a_service_says_where_it_is_while_it_serves_and_signals_are_its_own_for_so_long(ready: Path) -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    serving = service(ready)
    await eventually(ready.exists, "the service")
    assert said(ready) == os.getpid()
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    tell()
    await asyncio.wait_for(serving, 30)
    assert said(ready) is None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert asyncio.all_tasks() == {asyncio.current_task()}
