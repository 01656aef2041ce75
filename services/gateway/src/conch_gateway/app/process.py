"""The gateway as a process: registry, keys, HTTP client and heartbeat around the application, until a signal comes."""

import asyncio
import sys
from contextlib import closing
from functools import partial
from os import urandom

from conch_contracts.names import ModelId
from conch_contracts.records import Pool
from conch_gateway.answers.protocols import refused_head
from conch_gateway.app.assembly import Deps, create_app
from conch_gateway.app.readiness import Readiness
from conch_gateway.encoders.answer_cache import RedisStore
from conch_gateway.http.auth import ApiKeys
from conch_gateway.placement.admission import Admission
from conch_gateway.placement.media_client import MediaClient
from conch_gateway.placement.unresponsive_workers import UnresponsiveWorkers
from conch_gateway.responses.store import RedisResponses
from conch_gateway.settings import GatewaySettings
from conch_gateway.telemetry.access_log import AccessLog
from conch_gateway.telemetry.metrics import GatewayMetrics, WakeCause
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_gateway.upstream.tokenizer_lanes import TokenizerLanes
from conch_kit import metrics
from conch_kit.http.admin import Health
from conch_kit.http_server.limits import ConnectionLimits
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import GatewayBeatWriter
from conch_kit.registry.load_reader import LoadReader, OtherLoads
from conch_kit.registry.load_writer import LoadWriter
from conch_kit.registry.metrics import RegistryCollector
from conch_kit.registry.snapshot import Snapshot
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.service.serve import serve
from conch_kit.tracing import Tracer, tracer


async def run_gateway(settings: GatewaySettings) -> None:
    """Serve until a signal comes and every request has ended or was cut."""
    access_log = AccessLog(sys.stdout.buffer if settings.access_log else None)
    with closing(tracer("conch-gateway", settings.otlp_endpoint)) as spans:
        try:
            await _serve(settings, spans, access_log)
        finally:
            access_log.flush()


async def _serve(settings: GatewaySettings, spans: Tracer, access_log: AccessLog) -> None:
    keys = ApiKeys(settings.api_keys_file)
    await keys.load()
    collectors = metrics.registry()
    gateway_id = urandom(8).hex()
    gateway_metrics = GatewayMetrics(collectors)
    admission = Admission(held_bytes=settings.hold_bytes, queued_bytes=settings.queue_bytes)
    async with (
        _redis(settings) as redis,
        RegistryReader(redis, pools=(Pool.LLM, Pool.EMBED, Pool.SPEECH, Pool.TOKENIZER)) as reader,
        GatewayBeatWriter(redis, gateway_id, revision=lambda: reader.snapshot.revision) as beats,
        LoadWriter(redis, gateway_id, partial(admission.load, gateway_id)) as loads,
        LoadReader(redis, gateway_id, partial(_hear, admission, loads)),
        ConnectionPool(connect_timeout_s=settings.connect_timeout_s) as upstream,
        TokenizerLanes(upstream, _secret(settings)) as lanes,
        UnresponsiveWorkers(lanes) as unresponsive,
        asyncio.TaskGroup() as tasks,
    ):
        collectors.register(RegistryCollector(reader, redis))
        readiness = Readiness()

        def held(model: ModelId) -> None:
            loads.changed(urgent=True)
            gateway_metrics.of(reader.snapshot.routes[model].served_names[0]).wakes[WakeCause.REQUEST].inc()

        admission.changed, admission.held = loads.changed, held
        for apply in (readiness.apply, admission.apply):
            reader.subscribe(apply)
            apply(reader.snapshot)
        reader.subscribe(unresponsive.look)
        reader.subscribe(partial(_tell_applied, beats, loads))
        following = tasks.create_task(keys.follow())
        deps = Deps(
            snapshot=readiness.snapshot,
            not_ready=readiness.not_ready,
            known=readiness.known,
            reachable=readiness.reachable,
            upstream=upstream,
            tokenizers=lanes,
            admission=admission,
            keys=keys,
            metrics=gateway_metrics,
            access_log=access_log,
            tracer=spans,
            responses=RedisResponses(redis, settings.response_ttl_s),
            pictures=MediaClient(upstream, settings.media_url, _secret(settings)),
            wake=loads.wake,
            store=RedisStore(redis),
        )

        async def on_drain() -> None:
            readiness.draining = True
            await asyncio.sleep(settings.drain_delay_s)

        app = create_app(deps, settings)
        await serve(
            app,
            settings,
            health=Health(live=lambda: True, ready=readiness.not_ready),
            metrics=collectors,
            on_drain=on_drain,
            limits=ConnectionLimits(
                head_s=settings.header_timeout_s,
                head_bytes=settings.max_header_bytes,
                body_s=settings.body_timeout_s,
                idle_s=settings.kept_connection_s,
                unread_s=settings.write_stall_s,
            ),
            refusal_form=refused_head,
        )
        following.cancel()


def _tell_applied(beats: GatewayBeatWriter, loads: LoadWriter, snapshot: Snapshot) -> None:
    """Tell at once what was applied, and what is left of engines that have gone: the operator waits for both."""
    if beats.applied(snapshot.revision):
        loads.changed()


def _hear(admission: Admission, loads: LoadWriter, said: OtherLoads) -> None:
    """Take over what the other gateways do."""
    loads.beside(others=bool(said.loads))
    admission.apply_others(said)


def _secret(settings: GatewaySettings) -> str | None:
    return None if settings.internal_token is None else settings.internal_token.get_secret_value()


def _redis(settings: GatewaySettings) -> RedisClient:
    limit_s = settings.redis_timeout_s
    return RedisClient(settings.redis_url, connect_timeout_s=limit_s, command_timeout_s=limit_s)
