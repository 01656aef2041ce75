"""What all worker processes are built of: Redis, Triton, traces, a count of requests in flight, a heartbeat."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from pydantic import Json

from conch_contracts.records import Pool
from conch_kit import metrics
from conch_kit.addresses.rules import AddressRules
from conch_kit.http.admin import Health
from conch_kit.http.asgi import Handler
from conch_kit.http.internal_app import internal_app
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import WorkerHeartbeat
from conch_kit.service.serve import serve
from conch_kit.settings import ServiceSettings
from conch_kit.tracing import Tracer, tracer
from conch_kit.triton.checked_addresses import CheckedAddresses
from conch_kit.triton.client import TritonClient


class WorkerSettings(ServiceSettings):
    """What workers can be told, beside what every service can."""

    address_rules: Json[AddressRules] | None = None
    """Which engines authors of ModelDeployments may name; None: any. What Conch runs itself needs no rule."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process before it serves: what its handler is built of."""

    name: str
    settings: WorkerSettings
    registry: CollectorRegistry
    tracer: Tracer
    redis: RedisClient
    triton: TritonClient
    addresses: CheckedAddresses
    in_flight: InFlightRequests

    async def serve(self, pool: Pool, path: str, handler: Handler) -> None:
        """Serve until told to stop, with a heartbeat in the pool all the while."""
        async with AsyncExitStack() as stack:
            heartbeat = WorkerHeartbeat(self.redis, pool, lambda: self.in_flight.count, self.triton.streaming, stack)
            await serve(
                internal_app({path: handler}, self.settings.internal_token, self.tracer),
                self.settings,
                health=Health(live=lambda: True, ready=lambda: None),
                metrics=self.registry,
                on_bound=heartbeat.begin,
                on_drain=heartbeat.drain,
            )


@asynccontextmanager
async def worker(name: str, settings: WorkerSettings) -> AsyncIterator[Worker]:
    """Build the parts of a worker, and take them down when it has served."""
    with closing(tracer(name, settings.otlp_endpoint)) as spans:
        async with RedisClient(settings.redis_url) as redis, TritonClient() as triton:
            addresses = CheckedAddresses(settings.address_rules)
            yield Worker(name, settings, metrics.registry(), spans, redis, triton, addresses, InFlightRequests())
