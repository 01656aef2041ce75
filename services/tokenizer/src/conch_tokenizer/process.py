"""Builds the parts of one tokenizer process and runs them; `main` is the edge."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import replace

from conch_contracts.messages.tokenizer_frames import Operation
from conch_contracts.names import CHECK_GRAMMAR_PATH
from conch_contracts.records import Pool
from conch_kit import metrics
from conch_kit.bundles.cache_folder import cache_folder
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.bundles.store import BundleStore
from conch_kit.http.admin import Health
from conch_kit.http.asgi import Handler
from conch_kit.http.internal_app import internal_app
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import HeartbeatWriter
from conch_kit.service.serve import serve
from conch_kit.settings import StartupError
from conch_kit.tracing import tracer
from conch_tokenizer.children.lanes import Lanes
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.pool import ChildPool, ChildPoolSettings
from conch_tokenizer.children.spawner import Spawner
from conch_tokenizer.children.work_board import WorkBoard, board_memory
from conch_tokenizer.http.grammar_service import GrammarService
from conch_tokenizer.http.request_count import RequestCount
from conch_tokenizer.http.request_metrics import RequestMetrics
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
        memory = stack.enter_context(board_memory(1 + sum(_sizes(settings))))
        board = WorkBoard(memory)
        registry.register(RequestMetrics(board))
        spawner = await stack.enter_async_context(Spawner(settings.child_limits(), memory, environ))
        lanes = await stack.enter_async_context(Lanes(board, settings.children, settings.time_limits()))
        small = await stack.enter_async_context(ChildPool(spawner, _small(settings), collectors, spans, lanes))
        large = await stack.enter_async_context(ChildPool(spawner, _large(settings), collectors, spans))
        grammar = await stack.enter_async_context(ChildPool(spawner, _grammar(settings), collectors, spans))
        redis = await stack.enter_async_context(RedisClient(settings.redis_url))
        cache_dir = stack.enter_context(cache_folder(settings.cache_dir, name="conch-tokenizer"))
        bundles = BundleCache(BundleStore(redis), cache_dir, collectors.bundles_fetched.inc)
        count = RequestCount(board.row(0))
        service = TokenizerService(small, large, lanes, bundles, count, max_body_bytes=settings.max_body_bytes)
        handlers: dict[str, Handler] = {
            **service.handlers(),
            CHECK_GRAMMAR_PATH: GrammarService(grammar, bundles, count),
        }
        if settings.otlp_endpoint is None:  # on lanes there are no spans
            handlers.update(service.lane_handler())
        announcement = await stack.enter_async_context(AsyncExitStack())

        async def announce(url: str) -> None:
            await _first_child(small)
            await announcement.enter_async_context(
                # Draining is told by removing the record, see on_drain.
                HeartbeatWriter(redis, Pool.TOKENIZER, url, in_flight=board.in_flight, draining=lambda: False)
            )

        await serve(
            internal_app(handlers, settings.internal_token, spans),
            settings,
            health=Health(live=lambda: True, ready=lambda: None if small.alive else "no tokenizer child is running"),
            metrics=registry,
            on_bound=announce,
            on_drain=announcement.aclose,
        )


async def _first_child(pool: ChildPool) -> None:
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await pool.wait_ready()
    except TimeoutError as exc:
        raise StartupError(f"No tokenizer child was ready within {_START_TIMEOUT_S:g} s.") from exc


def _sizes(settings: TokenizerSettings) -> tuple[int, int, int]:
    """Return how many children serve small requests, large ones, and grammars."""
    return settings.children, max(1, settings.children - 1), 1


def _small(settings: TokenizerSettings) -> ChildPoolSettings:
    size, _, _ = _sizes(settings)
    return ChildPoolSettings(
        size=size,
        first_row=1,
        models_in_memory=settings.models_in_memory,
        queue_wait_s=settings.queue_wait_s,
        queue_max=settings.queue_max,
        limits=settings.time_limits(),
    )


def _large(settings: TokenizerSettings) -> ChildPoolSettings:
    small, size, _ = _sizes(settings)
    return replace(_small(settings), size=size, first_row=1 + small, on_demand=True)


def _grammar(settings: TokenizerSettings) -> ChildPoolSettings:
    small, large, size = _sizes(settings)
    limit_s = settings.grammar_timeout_s  # reading a tokenizer is a part of the first check for it
    limits = TimeLimits(template_s=limit_s, encode_s=limit_s, load_s=limit_s)
    return replace(
        _small(settings),
        size=size,
        first_row=1 + small + large,
        limits=limits,
        load=Operation.LOAD_FOR_GRAMMARS,
        on_demand=True,
        tries_again=False,
    )
