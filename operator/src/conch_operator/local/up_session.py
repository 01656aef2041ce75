"""One `conch up` from its first process to its last: the operator's loop on this machine.

start      the services start together
rounds     reconcile on every change (file, process, verdict), and once a second
stop       the gateway first, so that requests finish; then the other services and the engines; Redis last
"""

import asyncio
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from conch_contracts.records import Pool
from conch_kit.bundles.store import BundleStore
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import RegistryWriter
from conch_kit.side_by_side import until_first_ends
from conch_kit.timed_waits import wait_at_most
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.engine_pools.residents import Residents
from conch_operator.local.console import Console
from conch_operator.local.downloads import DownloadedSources, Downloads
from conch_operator.local.engines import EngineServer, LocalEngines
from conch_operator.local.services import GATEWAY, REDIS, ServiceOptions, Services, needs_media
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.status_file import write_report
from conch_operator.local.supervisor import Supervisor
from conch_operator.local.watched_model_files import DesiredModels
from conch_operator.metrics import OperatorMetrics
from conch_operator.probe.prober import Prober
from conch_operator.probe.triton_request import TritonProbeClient, bounded_client
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.reconcile.plan import plan_processes
from conch_operator.reconcile.reconciler import Ports, Reconciler
from conch_operator.reconcile.status import Statuses
from conch_operator.routes.known_routes import KnownRoutes
from conch_operator.scaling.autoscaler import Autoscaler
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.demand_reader import DemandReader
from conch_operator.state import Desired

_STARTING_ROUND_S = 0.1
_ROUND_S = 1.0
_LONGEST_PAUSE_S = 0.2
"""Between two rounds, however long the last one took and however much has changed since."""
_PATIENCE_S = 2.0
"""How long a round waits for a folder; then it goes on for all other models, and a later round takes what it says."""
_REDIS_POLL_S = 0.02
_REDIS_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What one `conch up` is asked for."""

    files: tuple[Path, ...]
    """Watched for edits."""
    services: ServiceOptions
    server: EngineServer


class GatewayRefused(Exception):
    """The gateway did not even start, which trying again with the same settings cannot heal; it says why."""


class UpSession:
    """Runs until it gets a signal; leaves no process behind."""

    def __init__(self, options: UpOptions, state: StateFolder, models: DesiredModels, console: Console) -> None:
        self._options = options
        self._state = state
        self._models = models
        self._console = console
        self._services = Services(options.services, state)
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._statuses: Statuses = {}
        self._refusal: str | None = None

    async def run(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP; raises GatewayRefused."""
        async with Supervisor() as supervisor, bounded_client() as triton:
            engines = LocalEngines(supervisor, self._state, self._options.server, triton, self._wake.set)
            self._obey_signals(engines)
            self._services.start(supervisor, self._wake.set)
            try:
                await self._serve(supervisor, engines, triton)
            finally:
                await self._stop(engines)
        if self._refusal is not None:
            raise GatewayRefused(self._refusal)

    async def _serve(self, supervisor: Supervisor, engines: LocalEngines, triton: TritonClient) -> None:
        redis_url = self._options.services.redis_url
        await self._wait_for_redis()
        async with AsyncExitStack() as stack:
            redis = await stack.enter_async_context(RedisClient(redis_url))
            reader = await stack.enter_async_context(RegistryReader(redis, pools=tuple(Pool)))
            reader.subscribe(lambda _: self._wake.set())
            http = await stack.enter_async_context(TritonHttp())
            asker = TritonProbeClient(triton, http)
            prober = await stack.enter_async_context(Prober(asker, self._wake.set, is_streaming=reader.is_streaming))
            downloads = Downloads(supervisor, self._state, self._options.server.environment, self._wake.set)
            background = Background(changed=self._wake.set, patience_s=_PATIENCE_S)
            sources, writer = DownloadedSources(downloads, background), RegistryWriter(redis)
            demand = DemandBook(time.monotonic)
            unread = OperatorMetrics.on(CollectorRegistry())  # nothing scrapes this process
            autoscaler = await stack.enter_async_context(Autoscaler(demand, self._wake.set, unread.scaling))
            residents = await stack.enter_async_context(Residents(demand, self._wake.set, unread.pools))
            await stack.enter_async_context(DemandReader(redis, demand, autoscaler.heard, residents.heard))
            ports = Ports(
                sources,
                engines,
                partial(plan_processes, known=KnownRoutes()),
                writer,
                reader,
                BundleStore(redis),
                prober,
                tokenizer_of=engines.tokenizer_of,
                scaling=(autoscaler, residents),
            )
            await until_first_ends(
                self._models.follow(self._options.files, self._files_read),
                self._rounds(Reconciler(ports, background=background), supervisor, reader),
            )

    async def _rounds(self, reconciler: Reconciler, supervisor: Supervisor, reader: RegistryReader) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            began_s = time.monotonic()
            desired = self._models.current  # which a file may replace before the round is over
            self._statuses = await reconciler.reconcile(desired, self._statuses)
            if needs_media(reader.snapshot.routes.values()):
                self._services.start_media(supervisor, self._wake.set)
            urls = self._urls()
            all_ready = self._report(urls, desired)
            self._end_without_gateway()
            took_s = time.monotonic() - began_s
            await wait_at_most(self._stopping, min(took_s, _LONGEST_PAUSE_S))  # rounds take half of the time at most
            await wait_at_most(self._wake, _ROUND_S if all_ready else _STARTING_ROUND_S)

    async def _wait_for_redis(self) -> None:
        url = self._options.services.redis_url
        shown = url.split("://")[-1].split("@")[-1]  # without a password
        waited_s = 0.0
        while not self._stopping.is_set():
            try:
                async with RedisClient(url) as redis:
                    await redis.execute("PING")
                self._console.change(REDIS, f"redis answers at {shown}")
                return
            except (RegistryUnavailable, RegistryError) as error:
                if waited_s > _REDIS_PATIENCE_S:
                    self._console.change(REDIS, f"redis at {shown} does not answer yet: {error}")
            self._console.services(self._services.processes, {})
            await asyncio.sleep(_REDIS_POLL_S)
            waited_s += _REDIS_POLL_S

    def _report(self, urls: Mapping[str, str], desired: Desired) -> bool:
        """Report what a round for these models has changed; return whether everything serves."""
        self._console.services(self._services.processes, urls)
        self._console.models(self._statuses)
        write_report(self._state.status, urls.get(GATEWAY), self._services.processes, self._statuses)
        all_ready = GATEWAY in urls and all(status.ready for status in self._statuses.values())
        if all_ready:
            kinds = {model.id: model.deployment.spec.kind for model in desired.models}
            self._console.welcome(urls[GATEWAY], self._statuses, kinds)
        return all_ready

    def _end_without_gateway(self) -> None:
        gateway = self._services.processes[GATEWAY]
        if self._refusal is None and gateway.first_exit is not None and gateway.first_exit > 0:
            self._refusal = f"The gateway cannot start: it {gateway.detail}"
            self._stopping.set()
            self._wake.set()

    def _urls(self) -> dict[str, str]:
        urls = {name: self._services.url(name) for name in self._services.processes}
        return {name: url for name, url in urls.items() if url is not None}

    def _files_read(self, faults: tuple[str, ...]) -> None:
        for fault in faults:
            self._console.step(f"{fault} (the last good state goes on)")
        if not faults:
            self._console.step("the files have changed; applying")
            self._wake.set()

    def _obey_signals(self, engines: LocalEngines) -> None:
        def stop() -> None:
            if self._stopping.is_set():
                engines.kill()
                for process in self._services.processes.values():
                    process.kill()
            self._stopping.set()
            self._wake.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)

    async def _stop(self, engines: LocalEngines) -> None:
        self._console.step("stopping; press Ctrl-C again to stop at once")
        others = tuple(name for name in self._services.processes if name not in (GATEWAY, REDIS))
        await self._services.stop((GATEWAY,))
        await asyncio.gather(self._services.stop(others), engines.stop_all())
        await self._services.stop((REDIS,))
        self._console.step("stopped")
