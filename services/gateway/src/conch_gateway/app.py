"""Puts the gateway together: from its collaborators to one ASGI callable."""

from collections.abc import Callable
from dataclasses import dataclass

from conch_contracts.records import Heartbeat, Pool
from conch_gateway.access_log import AccessLog
from conch_gateway.admission import Admission
from conch_gateway.auth import ApiKeys
from conch_gateway.catalogue import catalogue
from conch_gateway.cors import Cors
from conch_gateway.dispatch import Dispatch
from conch_gateway.edge import Edge
from conch_gateway.inference import Bounds, Inference
from conch_gateway.metrics import GatewayMetrics
from conch_gateway.retries import RetryBudget
from conch_gateway.settings import GatewaySettings
from conch_gateway.tokenizers import Tokenizers
from conch_gateway.upstream.port import Upstream
from conch_kit.asgi import ASGIApp
from conch_kit.snapshot import Snapshot
from conch_kit.tracing import Tracer


@dataclass(frozen=True, slots=True)
class Deps:
    """What the application needs from outside."""

    snapshot: Callable[[], Snapshot | None]
    """The registry as last seen; None until it was read once."""
    not_ready: Callable[[], str | None]
    """Why no requests should come; None when they may."""
    upstream: Upstream
    admission: Admission
    keys: ApiKeys
    metrics: GatewayMetrics
    access_log: AccessLog
    tracer: Tracer


def create_app(deps: Deps, settings: GatewaySettings) -> ASGIApp:
    """Return the gateway as an ASGI application."""

    def workers(pool: Pool) -> Callable[[], tuple[Heartbeat, ...]]:
        def current() -> tuple[Heartbeat, ...]:
            snapshot = deps.snapshot()
            return () if snapshot is None else snapshot.workers.get(pool, ())

        return current

    tokenizers = Tokenizers(
        deps.upstream,
        workers(Pool.TOKENIZER),
        timeout_s=settings.tokenizer_timeout_s,
        retries=RetryBudget(deps.metrics.retries.labels("tokenizer").inc),
    )
    dispatch = Dispatch(
        deps.upstream,
        deps.admission,
        workers(Pool.LLM),
        retries=RetryBudget(deps.metrics.retries.labels("worker").inc),
    )
    token = settings.internal_token
    inference = Inference(
        deps.snapshot,
        tokenizers,
        dispatch,
        deps.metrics,
        Bounds(
            max_body_bytes=settings.max_body_bytes,
            body_timeout_s=settings.body_timeout_s,
            keep_alive_s=settings.keep_alive_s,
            write_stall_s=settings.write_stall_s,
            worker_grace_s=settings.worker_grace_s,
        ),
        deps.tracer,
        internal_token=None if token is None else token.get_secret_value().encode(),
    )
    rest = catalogue(deps.snapshot, deps.not_ready, owned_by=settings.owned_by, openapi=settings.openapi)
    cors = Cors.of(settings.cors_origins)
    return Edge(inference, rest, deps.keys, cors, deps.metrics, deps.access_log)
