"""The worker's collaborators, built and taken down in order."""

from contextlib import AsyncExitStack, closing

from conch_contracts.names import ENCODE_PATH
from conch_contracts.records import Pool
from conch_embed_worker.engines import Engines
from conch_embed_worker.handler import EncodeHandler
from conch_embed_worker.lanes import Lanes
from conch_embed_worker.metrics import Metrics
from conch_embed_worker.settings import Settings
from conch_kit import metrics
from conch_kit.announcement import Announcement
from conch_kit.interruption import InFlight
from conch_kit.redis_client import RedisClient
from conch_kit.service import Health, internal_app, serve
from conch_kit.tracing import tracer
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp


async def serve_worker(settings: Settings) -> None:
    """Serve until told to stop, announcing the process all the while."""
    registry = metrics.registry()
    own = Metrics.register(registry)
    in_flight = InFlight()
    async with AsyncExitStack() as stack:
        spans = stack.enter_context(closing(tracer("conch-embed-worker", settings.otlp_endpoint)))
        redis = await stack.enter_async_context(RedisClient(settings.redis_url))
        triton = await stack.enter_async_context(TritonClient())
        http = await stack.enter_async_context(TritonHttp())
        lanes = await stack.enter_async_context(Lanes(Engines(triton, http), own, settings.max_batch_tokens))
        handler = EncodeHandler(lanes, in_flight, own, settings.max_body_bytes)
        announced = Announcement(redis, Pool.EMBED, lambda: in_flight.count, stack)
        await serve(
            internal_app({ENCODE_PATH: handler}, settings.internal_token, spans),
            settings,
            health=Health(live=lambda: True, ready=lambda: None),
            metrics=registry,
            on_bound=announced.begin,
            on_drain=announced.drain,
        )
