"""The llm-worker's collaborators, built and taken down in order."""

import random

from conch_contracts.names import GENERATE_PATH
from conch_contracts.records import Pool
from conch_kit.bundles.cache_folder import cache_folder
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.bundles.store import BundleStore
from conch_kit.bundles.tokenizer_cache import TokenizerCache
from conch_kit.service.worker import worker
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.handler import GenerateHandler
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_llm_worker.settings import LlmWorkerSettings
from conch_llm_worker.text.vocabulary import Vocabulary


async def serve_worker(settings: LlmWorkerSettings) -> None:
    """Serve until told to stop."""
    async with worker("conch-llm-worker", settings) as parts:
        with cache_folder(settings.cache_dir, name=parts.name) as cache_dir:
            own = LlmWorkerMetrics.register(parts.registry)
            bundles = BundleCache(BundleStore(parts.redis), cache_dir)
            vocabularies = TokenizerCache(bundles, Vocabulary.from_json, own.vocabularies, settings.max_vocabularies)
            engines = EngineCalls(parts.triton, lambda: random.getrandbits(63), parts.tracer)
            handler = GenerateHandler(
                engines, vocabularies, parts.in_flight, own, settings.max_body_bytes, addresses=parts.addresses
            )
            await parts.serve(Pool.LLM, GENERATE_PATH, handler)
