"""The life of a service process: bind, serve, tell that it is ready, drain at a signal, end.

The app runs on one port, health and metrics on another. A first SIGTERM or SIGINT drains:
requests in flight may end. A second one, or the end of the time for that, cuts what is left.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from prometheus_client import CollectorRegistry

from conch_kit.http.admin import Health, admin_app
from conch_kit.http.asgi import ASGIApp
from conch_kit.http_server.bound_socket import bound
from conch_kit.http_server.limits import DEFAULT_LIMITS, ConnectionLimits
from conch_kit.http_server.refusal import RefusalForm, openai_refusal
from conch_kit.http_server.server import HttpServer
from conch_kit.settings import ServerSettings

log = logging.getLogger(__name__)

_COLLECTIONS = (5_000, 10, 10)
"""When garbage is collected: a request leaves next to none in cycles, and with Python's own 700 costs a tenth more."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(
    app: ASGIApp,
    settings: ServerSettings,
    *,
    health: Health,
    metrics: CollectorRegistry,
    on_bound: Callable[[str], Awaitable[None]] | None = None,
    on_drain: Callable[[], Awaitable[None]] | None = None,
    limits: ConnectionLimits = DEFAULT_LIMITS,
    refusal_form: RefusalForm = openai_refusal,
) -> None:
    """Serve until a signal comes and everything in flight has ended or was cut; raises StartupError."""
    shutdown = _Shutdown()
    with bound(settings.host, settings.port) as public, bound(settings.admin_host, settings.admin_port) as admin:
        url = settings.advertise_url or _url(settings.host, public)
        admin_url = _url(settings.admin_host, admin)
        server = HttpServer(app, limits, refusal_form)
        gc.freeze()  # what start-up made lives as long as the process; collections need not walk it
        gc.set_threshold(*_COLLECTIONS)
        async with (
            HttpServer(admin_app(health, metrics, shutdown.not_ready)).serving(admin),
            server.serving(public),
        ):
            if on_bound is not None:
                await on_bound(url)
            with shutdown.on_signals(), _ready_file(settings.ready_file, url, admin_url):
                log.info("Serving.", extra={"url": url, "admin_url": admin_url})
                await shutdown.draining.wait()
                await _drain(on_drain, shutdown, settings.drain_s)
                finished = asyncio.create_task(server.finish())
                await _first(shutdown.cut, finished, timeout_s=settings.drain_s)
                finished.cancel()
                await server.cut()
    log.info("Stopped.")


@dataclass(slots=True)
class _Shutdown:
    """How far the signals have brought the end: a first one drains, a second one cuts."""

    draining: asyncio.Event = field(default_factory=asyncio.Event)
    cut: asyncio.Event = field(default_factory=asyncio.Event)

    def not_ready(self) -> str | None:
        return "draining" if self.draining.is_set() else None

    def signalled(self) -> None:
        if self.draining.is_set():
            self.cut.set()
        self.draining.set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.signalled)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


async def _first(event: asyncio.Event, task: asyncio.Task[None], *, timeout_s: float) -> None:
    """Wait for the event, for the end of the task or for the time to pass, whichever comes first."""
    waiter = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([waiter, task], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()


async def _drain(on_drain: Callable[[], Awaitable[None]] | None, shutdown: _Shutdown, drain_s: float) -> None:
    if on_drain is None or shutdown.cut.is_set():
        return
    log.info("Draining.", extra={"seconds": drain_s})
    work = asyncio.ensure_future(on_drain())
    cut = asyncio.create_task(shutdown.cut.wait())
    done, _ = await asyncio.wait([work, cut], timeout=drain_s, return_when=asyncio.FIRST_COMPLETED)
    for pending in (work, cut):
        pending.cancel()
    if work in done:
        work.result()


def _url(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


@contextmanager
def _ready_file(path: Path | None, url: str, admin_url: str) -> Iterator[None]:
    if path is None:
        yield
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_bytes(orjson.dumps({"url": url, "admin_url": admin_url, "pid": os.getpid()}))
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
