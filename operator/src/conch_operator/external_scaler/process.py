"""Serves the external scaler beside everything else that an operator does, whether it has the Lease or not."""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc

from conch_kit.redis.client import RedisClient
from conch_kit.registry.writer import RegistryWriter
from conch_kit.settings import StartupError
from conch_operator.external_scaler.heard_demand import HeardDemand
from conch_operator.external_scaler.service import ScalerService
from conch_operator.external_scaler.watched_models import WatchedModels, WatchingApi
from conch_operator.kubernetes.api.backoff import Attempts
from conch_operator.kubernetes.api.caching_client import CachingApi
from conch_operator.kubernetes.assembly import namespaces_of
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.demand_reader import DemandReader
from conch_operator.settings import OperatorSettings, ReleaseFile

log = logging.getLogger(__name__)

GRACE_S = 1.0
"""How long calls may take to end by themselves."""
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.keepalive_time_ms", 60_000),  # so that a stream whose reader has vanished ends
    # KEDA opens all its streams at once when an operator has gone: by default 1,000 calls may wait to be taken.
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 20_000),
)


@asynccontextmanager
async def external_scaler(settings: OperatorSettings, release: ReleaseFile) -> AsyncIterator[None]:
    """Serve what the settings and the release ask for; raises StartupError where the port is taken."""
    host, port = settings.external_scaler_host, settings.external_scaler_port or 0
    async with (
        CachingApi(lambda: False, Attempts(), settings.watch_stale_s) as api,
        RedisClient(settings.redis_url) as redis,
        listening(api, redis, namespaces_of(release)) as service,
        serving(service, host, port),
    ):
        log.info("Answering KEDA.", extra={"host": host, "port": port})
        yield


@asynccontextmanager
async def listening(
    api: WatchingApi, redis: RedisClient, namespaces: Sequence[str | None]
) -> AsyncIterator[ScalerService]:
    """Hear what gateways have to do, and give the service that tells it."""
    book = DemandBook(time.monotonic)
    async with HeardDemand(book, RegistryWriter(redis)) as demand, DemandReader(redis, book, demand.heard):
        yield ScalerService(WatchedModels(api, namespaces), demand)


@asynccontextmanager
async def serving(service: ScalerService, host: str, port: int) -> AsyncIterator[int]:
    """Serve until the context ends, and give the port; raises StartupError."""
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((service.handler(),))
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError as error:
        raise StartupError(f"The external scaler cannot listen on {address}: {error}") from error
    await server.start()
    try:
        yield bound
    finally:
        service.end()
        await server.stop(GRACE_S)
