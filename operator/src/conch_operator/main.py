"""The operator's process: waits for the Lease, works while it holds it, waits again.

This is where its parts are put together. Health and metrics are served from the start; a process that waits for the
Lease is as ready as the one that holds it.
"""

import asyncio
import logging
import os
import sys
import time
from contextlib import AsyncExitStack

from conch_contracts.names import MODEL_LABEL
from conch_contracts.records import Pool
from conch_kit import logs
from conch_kit import metrics as kit_metrics
from conch_kit.http.admin import Health
from conch_kit.http.asgi import Receive, Scope, Send, respond
from conch_kit.redis.client import RedisClient
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import Fenced
from conch_kit.service.entry import run
from conch_kit.service.serve import serve
from conch_kit.settings import StartupError, load, redacted
from conch_kit.side_by_side import until_first_ends
from conch_kit.triton.http_client import TritonHttp
from conch_operator.agent.tokens import AgentTokens
from conch_operator.external_scaler.process import external_scaler
from conch_operator.kubernetes.api.backoff import Attempts
from conch_operator.kubernetes.api.caching_client import CachingApi
from conch_operator.kubernetes.api.client import KubernetesApi, NotLeading
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, POD
from conch_operator.kubernetes.api.lease import Leadership
from conch_operator.kubernetes.assembly import Opened, leader_round, probe_client
from conch_operator.kubernetes.leader_loop import LeaderLoop
from conch_operator.kubernetes.pods.agent_client import Agents
from conch_operator.metrics import OperatorMetrics
from conch_operator.probe.prober import ON_CLUSTER, Prober
from conch_operator.probe.triton_request import bounded_client
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.demand_reader import DemandReader
from conch_operator.settings import OperatorSettings, ReleaseFile, read_release

log = logging.getLogger(__name__)

REGISTRY_S = 5.0
"""How long the first round waits for what the last operator left in the registry, so that its word stands meanwhile."""
PATIENCE_S = 0.02
"""How long a round waits for calls about single models: for what is said at once. The end of a later one begins
another, so more would only let each model wait for the slowest call about any other."""


_SWITCH_S = 0.001
"""How long a thread that works out a round's plan or statuses may keep the loop from a turn."""
_REDIS_S = 1.0
"""How long Redis may take for a command: beside a round of many models the loop may see its answer late."""


def main() -> int:
    """Run the operator and return its exit status."""
    try:
        settings = load(OperatorSettings, os.environ)  # noqa: TID251
        logs.configure(settings.log_level, stream=sys.stderr)
        release = read_release(settings.settings_file)
    except StartupError as error:
        sys.stderr.write(f"conch-operator: {error}\n")
        return 1
    sys.setswitchinterval(_SWITCH_S)
    log.info("Starting.", extra={"settings": redacted(settings)})
    return run(Operator(settings, release).run())


class Operator:
    """One process, leading or not."""

    def __init__(self, settings: OperatorSettings, release: ReleaseFile) -> None:
        self._settings = settings
        self._release = release
        self._registry = kit_metrics.registry()
        self._metrics = OperatorMetrics.on(self._registry)

    async def run(self) -> None:
        """Work until a signal comes."""
        async with KubernetesApi() as lease_api:
            place = (self._release.release.namespace, self._release.lease)
            leadership = Leadership(lease_api, place, self._settings.pod_name)
            try:
                await self._until_first_ends(leadership)
            finally:
                await leadership.release()

    async def _until_first_ends(self, leadership: Leadership) -> None:
        """Serve health, metrics and KEDA, and lead; the end of one ends all, and its error is the process's."""
        serving = serve(
            _nothing, self._settings, health=Health(live=lambda: True, ready=lambda: None), metrics=self._registry
        )
        tasks = [serving, self._lead(leadership)]
        if self._settings.external_scaler_port is not None:
            tasks.append(self._scale_for_others())
        await until_first_ends(*tasks)

    async def _scale_for_others(self) -> None:
        async with external_scaler(self._settings, self._release):
            await asyncio.Event().wait()

    async def _lead(self, leadership: Leadership) -> None:
        while True:
            await leadership.acquire()
            self._metrics.leading.set(1)
            try:
                await until_first_ends(self._work(leadership), leadership.hold())
            except* (NotLeading, Fenced) as errors:  # work is made of groups of tasks
                error = _innermost(errors)
                fenced = isinstance(error, Fenced)
                said = "Another operator has taken over." if fenced else "This operator leads no more."
                log.warning(said, extra={"error": str(error)})
            finally:
                self._metrics.leading.set(0)

    async def _work(self, leadership: Leadership) -> None:
        settings, release = self._settings, self._release
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            api = await enter(CachingApi(leadership.is_held, Attempts(), settings.watch_stale_s))
            agents = await enter(Agents(AgentTokens(settings.internal_token)))
            redis = await enter(RedisClient(settings.redis_url, command_timeout_s=_REDIS_S))
            reader = await enter(RegistryReader(redis, pools=tuple(Pool)))
            triton = await enter(bounded_client())
            changed = asyncio.Event()
            background = Background((await enter(asyncio.TaskGroup())).create_task, changed.set, PATIENCE_S)
            asker = probe_client(release, triton, await enter(TritonHttp()))
            prober = await enter(Prober(asker, changed.set, ON_CLUSTER, is_streaming=reader.is_streaming))
            demand = DemandBook(time.monotonic)
            opened = Opened(api, settings.pod_name, agents, redis, reader, prober, background, demand, self._metrics)
            one_round = leader_round(release, opened, leadership.fence)
            leader_loop = LeaderLoop(one_round, self._metrics, settings.round_s, changed, demand.holds)
            reader.subscribe(lambda _: leader_loop.changed())
            api.subscribe(leader_loop.changed)
            api.on_known_again(leader_loop.known_again)
            api.on_seen(MODEL_DEPLOYMENT, None, leader_loop.see_model)
            api.on_seen(POD, MODEL_LABEL, one_round.see_pod)
            autoscaler, residents = await enter(one_round.autoscaler), await enter(one_round.residents)
            await enter(DemandReader(redis, demand, autoscaler.heard, residents.heard))
            await reader.wait_answered(REGISTRY_S)
            await leader_loop.run()


def _innermost(error: BaseException) -> BaseException:
    """Return the first error inside groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer on the port that other services serve on; the operator has only its admin port."""
    await respond(send, 404, b"", [])


if __name__ == "__main__":
    sys.exit(main())
