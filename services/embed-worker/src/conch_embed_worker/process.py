"""The embed-worker's collaborators, built and taken down in order."""

from conch_contracts.names import ENCODE_PATH
from conch_contracts.records import Pool
from conch_embed_worker.batch_queues import BatchQueues
from conch_embed_worker.engine_calls import EncoderCalls
from conch_embed_worker.handler import EncodeHandler
from conch_embed_worker.metrics import EmbedWorkerMetrics
from conch_embed_worker.settings import EmbedWorkerSettings
from conch_kit.service.worker import worker
from conch_kit.triton.http_client import TritonHttp


async def serve_worker(settings: EmbedWorkerSettings) -> None:
    """Serve until told to stop."""
    async with worker("conch-embed-worker", settings) as parts, TritonHttp() as http:
        own = EmbedWorkerMetrics.register(parts.registry)
        async with BatchQueues(EncoderCalls(parts.triton, http), own, settings.max_batch_tokens) as queues:
            handler = EncodeHandler(queues, parts.in_flight, own, settings.max_body_bytes, addresses=parts.addresses)
            await parts.serve(Pool.EMBED, ENCODE_PATH, handler)
