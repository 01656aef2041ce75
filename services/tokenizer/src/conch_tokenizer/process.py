"""Builds the parts of one tokenizer process and runs them; `main` is the edge."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from conch_contracts.names import CHECK_GRAMMAR_PATH
from conch_contracts.records import Pool
from conch_kit import metrics
from conch_kit.bundles.cache_folder import cache_folder
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.bundles.store import BundleStore
from conch_kit.http.admin import Health
from conch_kit.http.internal_app import internal_app
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import HeartbeatWriter
from conch_kit.service.serve import HttpOptions, serve
from conch_kit.settings import StartupError
from conch_kit.tracing import tracer
from conch_tokenizer.children.frames import Operation
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.pool import ChildPool, ChildPoolSettings
from conch_tokenizer.children.spawner import Spawner
from conch_tokenizer.http.fast_path_protocol import fast_path
from conch_tokenizer.http.grammar_service import GrammarService
from conch_tokenizer.http.request_count import RequestCount
from conch_tokenizer.http.service import TokenizerService
from conch_tokenizer.metrics import TokenizerMetrics
from conch_tokenizer.settings import TokenizerSettings

_START_TIMEOUT_S = 60.0


async def serve_tokenizer(settings: TokenizerSettings, environ: Mapping[str, str]) -> None:
    """Serve until a signal ends the process."""
    registry = metrics.registry()
    collectors = TokenizerMetrics(registry)
    async with AsyncExitStack() as stack:
        # The environment goes to the process that children come from, which needs the interpreter's own variables.
        spans = stack.enter_context(closing(tracer("conch-tokenizer", settings.otlp_endpoint)))
        spawner = await stack.enter_async_context(Spawner(settings.child_limits(), environ))
        pool = await stack.enter_async_context(ChildPool(spawner, _pool_settings(settings), collectors, spans))
        grammar_pool = ChildPool(spawner, _grammar_pool_settings(settings), collectors, spans)
        await stack.enter_async_context(grammar_pool)
        redis = await stack.enter_async_context(RedisClient(settings.redis_url))
        cache_dir = stack.enter_context(cache_folder(settings.cache_dir, name="conch-tokenizer"))
        bundles = BundleCache(BundleStore(redis), cache_dir, collectors.bundles_fetched.inc)
        count = RequestCount(collectors)
        service = TokenizerService(pool, bundles, count, max_body_bytes=settings.max_body_bytes)
        grammars = GrammarService(grammar_pool, bundles, count)
        announcement = await stack.enter_async_context(AsyncExitStack())

        async def announce(url: str) -> None:
            await _first_child(pool)
            await announcement.enter_async_context(
                # Draining is told by removing the record, see on_drain.
                HeartbeatWriter(redis, Pool.TOKENIZER, url, in_flight=lambda: count.in_flight, draining=lambda: False)
            )

        health = Health(live=lambda: True, ready=lambda: None if pool.alive else "no tokenizer child is running")
        app = internal_app({**service.handlers(), CHECK_GRAMMAR_PATH: grammars}, settings.internal_token, spans)
        # The fast path makes no spans, so it is closed while somebody looks at them.
        protocol = HttpToolsProtocol if settings.otlp_endpoint else fast_path(service, _secret(settings))
        await serve(
            app,
            settings,
            health=health,
            metrics=registry,
            on_bound=announce,
            on_drain=announcement.aclose,
            http=HttpOptions(protocol=protocol),
        )


def _secret(settings: TokenizerSettings) -> bytes | None:
    return None if settings.internal_token is None else settings.internal_token.get_secret_value().encode()


async def _first_child(pool: ChildPool) -> None:
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await pool.wait_ready()
    except TimeoutError as exc:
        raise StartupError(f"No tokenizer child was ready within {_START_TIMEOUT_S:g} s.") from exc


def _grammar_pool_settings(settings: TokenizerSettings) -> ChildPoolSettings:
    return ChildPoolSettings(
        size=1,
        models_in_memory=settings.models_in_memory,
        queue_wait_s=settings.queue_wait_s,
        queue_max=settings.queue_max,
        limits=TimeLimits(
            template_s=settings.grammar_timeout_s, encode_s=settings.grammar_timeout_s, load_s=settings.load_timeout_s
        ),
        load=Operation.LOAD_FOR_GRAMMARS,
        on_demand=True,
        tries_again=False,
    )


def _pool_settings(settings: TokenizerSettings) -> ChildPoolSettings:
    return ChildPoolSettings(
        size=settings.children,
        models_in_memory=settings.models_in_memory,
        queue_wait_s=settings.queue_wait_s,
        queue_max=settings.queue_max,
        limits=settings.time_limits(),
    )
