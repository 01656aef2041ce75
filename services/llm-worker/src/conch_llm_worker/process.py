"""The worker's collaborators, built and taken down in order."""

import random
from contextlib import AsyncExitStack, closing

from conch_contracts.names import GENERATE_PATH
from conch_contracts.records import Pool
from conch_kit import metrics
from conch_kit.announcement import Announcement
from conch_kit.bundle_cache import BundleCache
from conch_kit.cache_folder import cache_folder
from conch_kit.interruption import InFlight
from conch_kit.redis_client import RedisClient
from conch_kit.registry import BundleStore
from conch_kit.service import Health, internal_app, serve
from conch_kit.tracing import tracer
from conch_kit.triton.client import TritonClient
from conch_llm_worker.engine_calls import EngineCalls
from conch_llm_worker.handler import GenerateHandler
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
        announced = Announcement(redis, Pool.LLM, lambda: in_flight.count, stack)
        await serve(
            internal_app({GENERATE_PATH: handler}, settings.internal_token, spans),
            settings,
            health=Health(live=lambda: True, ready=lambda: None),
            metrics=registry,
            on_bound=announced.begin,
            on_drain=announced.drain,
        )
