"""Puts the gateway together: from its collaborators to one ASGI callable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from conch_contracts.names import ENCODE_PATH, TRANSCRIBE_PATH
from conch_contracts.records import Heartbeat, ModelKind, Pool
from conch_gateway.anthropic.handler import COUNT_PATH, CountTokensHandler, MessagesHandler
from conch_gateway.anthropic.handler import PATH as MESSAGES_PATH
from conch_gateway.app.edge import Edge, PostHandler
from conch_gateway.app.invocations import PATH as INVOCATIONS_PATH
from conch_gateway.app.invocations import Invocations
from conch_gateway.app.models_and_health import health_endpoints, model_endpoints
from conch_gateway.app.openapi_document import document_endpoint
from conch_gateway.app.wake_endpoint import Wake, WakeEndpoint
from conch_gateway.encoders.answer_cache import NoStore, SharedAnswers, Store
from conch_gateway.encoders.endpoints import ENCODER_PATHS
from conch_gateway.encoders.handler import EncoderHandler
from conch_gateway.encoders.tokenize_endpoints import DETOKENIZE_PATHS, TOKENIZE_PATHS, TokenEndpoints
from conch_gateway.generation.handler import PATHS, GenerationHandler
from conch_gateway.http.auth import ApiKeys
from conch_gateway.http.cors import Cors
from conch_gateway.http.paths import Endpoint, Paths
from conch_gateway.http.upload_spool import SpoolSpace
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.inference.picture_intake import PictureIntake, PictureSource
from conch_gateway.placement.admission import Admission
from conch_gateway.placement.attempts import ServiceProcesses
from conch_gateway.placement.dispatch import Dispatcher
from conch_gateway.placement.pool_return import PoolReturn
from conch_gateway.placement.retry_budget import RetryBudget
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.requests.template_policy import TemplatePolicy
from conch_gateway.responses.handler import PATH as RESPONSES_PATH
from conch_gateway.responses.handler import ResponsesHandler
from conch_gateway.responses.store import ResponseStore
from conch_gateway.responses.stored_endpoints import stored_endpoints
from conch_gateway.settings import GatewaySettings
from conch_gateway.speech.endpoints import SPEECH_PATHS
from conch_gateway.speech.handler import SpeechHandler
from conch_gateway.telemetry.access_log import AccessLog
from conch_gateway.telemetry.load import Load
from conch_gateway.telemetry.metrics import GatewayMetrics
from conch_gateway.upstream.port import Upstream
from conch_kit.http.asgi import ASGIApp
from conch_kit.registry.snapshot import Snapshot
from conch_kit.tracing import Tracer


@dataclass(frozen=True, slots=True)
class Deps:
    """What the application needs from outside."""

    snapshot: Callable[[], Snapshot | None]
    """The registry as last seen; None until it was read once."""
    not_ready: Callable[[], str | None]
    """Why no requests should come; None when they may."""
    known: Callable[[Pool], bool]
    """Whether a process of a pool has once been there."""
    reachable: Callable[[ModelKind], bool]
    """Whether all that models of a kind need beside an engine has once been there."""
    upstream: Upstream
    tokenizers: Upstream
    """The way to tokenizers."""
    admission: Admission
    keys: ApiKeys
    metrics: GatewayMetrics
    access_log: AccessLog
    tracer: Tracer
    responses: ResponseStore
    """Where answers are kept that clients may come back to."""
    pictures: PictureSource
    """Who fetches pictures that are named by URL."""
    wake: Wake
    """Leaves word that a model shall be awake."""
    store: Store = field(default_factory=NoStore)
    """Where answers are kept that may be given again."""


def create_app(deps: Deps, settings: GatewaySettings) -> ASGIApp:
    """Return the gateway as an ASGI application."""
    intake = RequestIntake(deps.snapshot, deps.metrics, settings, deps.tracer)
    load = Load()
    posts = _posts(deps, settings, intake)
    cors = Cors.of(settings.cors_origins)
    return Edge(
        posts,
        Paths(_endpoints(deps, settings, load), posts.keys()),
        deps.keys,
        cors,
        deps.metrics,
        deps.access_log,
        load,
        write_stall_s=settings.write_stall_s,
    )


def _endpoints(deps: Deps, settings: GatewaySettings, load: Load) -> Mapping[tuple[str, str], Endpoint]:
    """Return what answers everything else, by method and path."""
    document = document_endpoint(keyed=settings.api_keys_file is not None) if settings.openapi else {}
    return {
        **model_endpoints(deps.snapshot, deps.reachable, owned_by=settings.owned_by),
        **WakeEndpoint(deps.snapshot, deps.admission, deps.metrics, deps.wake).endpoints(),
        **stored_endpoints(deps.responses),
        **health_endpoints(deps.not_ready, load),
        **document,
    }


def _posts(deps: Deps, settings: GatewaySettings, intake: RequestIntake) -> Mapping[str, PostHandler]:
    """Return who serves the POSTs of inference, by path."""
    of_prompts = _processes(deps, deps.tokenizers, Pool.TOKENIZER, "tokenizer")
    # Grammars that time out may not use up the retries of prompts; everything else is of the pool.
    of_grammars = replace(of_prompts, retries=_retries(deps, of_prompts.name))
    tokenizers, grammars = (
        TokenizerClient(processes, timeout_s=settings.tokenizer_timeout_s) for processes in (of_prompts, of_grammars)
    )
    policy = TemplatePolicy(settings.chat_templates, frozenset(settings.template_variables))
    llm = Dispatcher(_processes(deps, deps.upstream, Pool.LLM, "worker"), deps.admission)
    pictures = PictureIntake(deps.pictures)
    generation = GenerationHandler(intake, tokenizers, grammars, llm, pictures, policy)
    embed = Dispatcher(_processes(deps, deps.upstream, Pool.EMBED, "worker"), deps.admission, path=ENCODE_PATH)
    encoders = EncoderHandler(intake, tokenizers, embed, pictures, SharedAnswers(deps.store))
    speech = Dispatcher(_processes(deps, deps.upstream, Pool.SPEECH, "worker"), deps.admission, path=TRANSCRIBE_PATH)
    speeches = SpeechHandler(intake, tokenizers, speech, SpoolSpace(settings.upload_spool_bytes))
    tokens = TokenEndpoints(intake, tokenizers, pictures, policy)
    posts: dict[str, PostHandler] = {
        **dict.fromkeys(PATHS, generation),
        RESPONSES_PATH: ResponsesHandler(intake, generation, deps.responses),
        MESSAGES_PATH: MessagesHandler(intake, generation),
        COUNT_PATH: CountTokensHandler(intake, tokenizers, pictures),
        **dict.fromkeys(ENCODER_PATHS, encoders),
        **dict.fromkeys(SPEECH_PATHS, speeches),
        **dict.fromkeys((*TOKENIZE_PATHS, *DETOKENIZE_PATHS), tokens),
    }
    return {**posts, INVOCATIONS_PATH: Invocations(intake, posts)}


def _processes(deps: Deps, upstream: Upstream, pool: Pool, name: str) -> ServiceProcesses:
    """Return the processes of one pool, with a retry budget and a line of those that wait for them."""

    def alive() -> tuple[Heartbeat, ...]:
        snapshot = deps.snapshot()
        return () if snapshot is None else snapshot.workers.get(pool, ())

    line = PoolReturn(name, lambda: deps.known(pool), alive, deps.admission.queued)
    return ServiceProcesses(name, upstream, alive, _retries(deps, name), line)


def _retries(deps: Deps, name: str) -> RetryBudget:
    return RetryBudget(deps.metrics.retries.labels(name).inc)
