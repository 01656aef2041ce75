"""The worker's collaborators, built and taken down in order."""

import random
from contextlib import AsyncExitStack, closing

from conch_contracts.names import GENERATE_PATH
from conch_contracts.records import Pool
from conch_kit import metrics
from conch_kit.bundle_cache import BundleCache
from conch_kit.cache_folder import cache_folder
from conch_kit.redis_client import RedisClient
from conch_kit.registry import BundleStore, HeartbeatWriter
from conch_kit.service import Health, internal_app, serve
from conch_kit.tracing import tracer
from conch_kit.triton.client import TritonClient
from conch_llm_worker.engine_calls import EngineCalls
from conch_llm_worker.handler import GenerateHandler
from conch_llm_worker.interruption import InFlight
from conch_llm_worker.metrics import Metrics
from conch_llm_worker.settings import Settings
from conch_llm_worker.vocabularies import VocabularyCache


async def serve_worker(settings: Settings) -> None:
    """Serve until told to stop, announcing the process all the while."""
    registry = metrics.registry()
    own = Metrics.register(registry)
    in_flight = InFlight()
    async with AsyncExitStack() as stack:
        spans = stack.enter_context(closing(tracer("conch-llm-worker", settings.otlp_endpoint)))
        redis = await stack.enter_async_context(RedisClient(settings.redis_url))
        triton = await stack.enter_async_context(TritonClient())
        cache_dir = stack.enter_context(cache_folder(settings.cache_dir, name="conch-llm-worker"))
        bundles = BundleCache(BundleStore(redis), cache_dir)
        vocabularies = VocabularyCache(bundles, own, settings.max_vocabularies)
        engines = EngineCalls(triton, lambda: random.getrandbits(63), spans)
        handler = GenerateHandler(engines, vocabularies, in_flight, own, settings.max_body_bytes)
        announced = _Announcement(redis, in_flight, stack)
        await serve(
            internal_app({GENERATE_PATH: handler}, settings.internal_token, spans),
            settings,
            health=Health(live=lambda: True, ready=lambda: None),
            metrics=registry,
            on_bound=announced.begin,
            on_drain=announced.drain,
        )


class _Announcement:
    """The worker's heartbeat: from when it listens until it has gone, marked while it drains."""

    def __init__(self, redis: RedisClient, in_flight: InFlight, stack: AsyncExitStack) -> None:
        self._redis = redis
        self._in_flight = in_flight
        self._stack = stack
        self._draining = False
        self._writer: HeartbeatWriter | None = None

    async def begin(self, url: str) -> None:
        """Announce the process under its URL."""
        self._writer = HeartbeatWriter(
            self._redis, Pool.LLM, url, in_flight=lambda: self._in_flight.count, draining=lambda: self._draining
        )
        await self._stack.enter_async_context(self._writer)

    async def drain(self) -> None:
        """Tell gateways at once that nothing new should come."""
        self._draining = True
        if self._writer is not None:
            await self._writer.beat()
