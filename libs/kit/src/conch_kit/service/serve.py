"""The life of a service process: bind, serve, tell that it is ready, drain at a signal, end.

The app runs with uvicorn (httptools) on one port, health and metrics on another. A first SIGTERM or SIGINT drains:
requests in flight may end. A second one, or the end of the time for that, cuts what is left.
"""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from conch_kit.http.admin import Health, admin_app
from conch_kit.http.asgi import ASGIApp, Receive, Scope, Send
from conch_kit.http.caller_connection import DisconnectAwareProtocol
from conch_kit.settings import ServiceSettings, StartupError

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CUT_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How the public side of a service treats connections."""

    keep_alive_s: int = 75
    """How long an idle connection stays open; longer than any client's pool keeps one."""
    protocol: type[HttpToolsProtocol] = DisconnectAwareProtocol
    """A class derived from uvicorn's protocol, for what uvicorn lacks."""
    lifespan: bool = False
    """Whether the app wants ASGI lifespan events."""
    backlog: int = 2048


async def serve(
    app: ASGIApp,
    settings: ServiceSettings,
    *,
    health: Health,
    metrics: CollectorRegistry,
    on_bound: Callable[[str], Awaitable[None]] | None = None,
    on_drain: Callable[[], Awaitable[None]] | None = None,
    http: HttpOptions = HttpOptions(),
) -> None:
    """Serve until a signal comes and everything in flight has ended or was cut; raises StartupError."""
    shutdown = _Shutdown()
    with _bound(settings.host, settings.port) as public, _bound(settings.admin_host, settings.admin_port) as admin:
        url = settings.advertise_url or _url(settings.host, public)
        admin_url = _url(settings.admin_host, admin)
        admin_server = _Server(_config(admin_app(health, metrics, shutdown.not_ready), HttpOptions(), linger_s=1))
        server = _Server(_config(_QuietlyCut(app), http, linger_s=None))
        gc.freeze()  # what start-up made lives as long as the process; collections need not walk it
        async with _serving(admin_server, admin), _serving(server, public) as task:
            if on_bound is not None:
                await on_bound(url)
            with shutdown.on_signals(), _ready_file(settings.ready_file, url, admin_url):
                log.info("Serving.", extra={"url": url, "admin_url": admin_url})
                await _first(shutdown.draining, task)
                await _drain(on_drain, shutdown, settings.drain_s)
                server.should_exit = True
                await _first(shutdown.cut, task, timeout_s=settings.drain_s)
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


@dataclass(frozen=True, slots=True)
class _QuietlyCut:
    """An app whose requests end without an error when they are cut; uvicorn would log each as a crash."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(asyncio.CancelledError):
            await self.app(scope, receive, send)


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals, and with an event for when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def cut(self) -> None:
        """Cancel the requests that still run, and wait a moment for their ends."""
        self.force_exit = True
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            log.warning("Requests were cut at the end of the drain.", extra={"requests": len(tasks)})
            await asyncio.wait(tasks, timeout=_CUT_GRACE_S)


def _config(app: ASGIApp, http: HttpOptions, *, linger_s: int | None) -> uvicorn.Config:
    """Return uvicorn's settings.

    With `linger_s` uvicorn cuts requests itself after so long. The public server is cut by `_Server.cut` alone: a
    second cancellation would keep its requests from sending their last words.
    """
    return uvicorn.Config(
        app,
        http=http.protocol,
        loop="none",
        ws="none",
        lifespan="on" if http.lifespan else "off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=http.backlog,
        timeout_keep_alive=http.keep_alive_s,
        timeout_graceful_shutdown=linger_s,
    )


@asynccontextmanager
async def _serving(server: _Server, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Run a uvicorn server beside the body: it listens when the body begins, and has ended when this ends."""
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await _first(server.listening, task)
        yield task
    finally:
        server.should_exit = True
        if not task.done():
            await asyncio.wait([task], timeout=_CUT_GRACE_S)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _first(event: asyncio.Event, task: asyncio.Task[None], *, timeout_s: float | None = None) -> None:
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


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
        try:
            listener.bind((host, port))
            listener.listen()
        except (OSError, OverflowError) as error:
            raise StartupError(f"Cannot listen on {host}:{port}: {_why(error)}.") from error
        listener.settimeout(0)
        yield listener


def _why(error: OSError | OverflowError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "another process uses this port"
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error).lower()


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
