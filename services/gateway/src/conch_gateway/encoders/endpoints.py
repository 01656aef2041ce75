"""The endpoints of encoders as data, and the pure way from a body to the work that it asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from conch_contracts.messages.message import to_json
from conch_contracts.openai.encoders.cohere import CohereEmbedRequest
from conch_contracts.openai.encoders.embeddings import EmbeddingRequest, PoolingRequest
from conch_contracts.openai.encoders.fields import EncoderCall, TextInput
from conch_contracts.openai.encoders.rerank import RerankRequest
from conch_contracts.openai.encoders.scores import ClassifyRequest, ScoreRequest
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.encoders import cohere_rows, input_length, request_rows, response_bodies
from conch_gateway.encoders.request_rows import BodyMaker, EncoderWork
from conch_gateway.errors.bad_request import conflicting, missing
from conch_gateway.http.body import parse
from conch_gateway.requests import chat_messages
from conch_gateway.requests.model_lookup import canonical_name, find_route
from conch_gateway.requests.validation import typed
from conch_kit.errors import InvalidRequest
from conch_kit.registry.snapshot import Snapshot

E = TypeVar("E", bound=EncoderCall)


@dataclass(frozen=True, slots=True)
class ResolvedEncoding:
    """A valid request, where it goes, and how its answer looks."""

    route: Route
    name: str
    work: EncoderWork
    preparation: bytes
    """What the tokenizer is asked; empty where there are pictures, to which something is to be added yet."""
    make_body: BodyMaker
    request_id: str | None
    """The client's own name for the request."""
    user: str | None
    priority: int
    cache_salt: str | None
    """What equal requests must share besides, for one to get the other's answer."""
    unknown_fields: int


@dataclass(frozen=True, slots=True)
class EncoderEndpoint(Generic[E]):
    """One endpoint, whatever paths it has."""

    name: str
    id_prefix: str
    request: type[E]
    kinds: tuple[ModelKind, ...]
    """Of models that serve it; the first is tried first when a request names no model."""
    work: Callable[[E, Route], EncoderWork]
    body_maker: Callable[[E, Route], BodyMaker]

    def resolve(self, body: bytes, snapshot: Snapshot) -> ResolvedEncoding:
        """Return the request that the body holds; raises a ServiceError that names what is wrong with it."""
        document = parse(body)
        if issubclass(self.request, TextInput):
            input_length.check_number(document, snapshot, self.kinds)
        request, unknown = typed(self.request, document)
        if isinstance(request, TextInput):
            _check_inputs(request)
            chat_messages.check(request.messages or ())
        if isinstance(request, CohereEmbedRequest):
            cohere_rows.check_texts(request)
        if isinstance(request, ScoreRequest):
            request_rows.sides(request)  # what is wrong with a request is told before that there is no such model
        route = find_route(snapshot, request.model, kinds=self.kinds)
        work = self.work(request, route)
        return ResolvedEncoding(
            route=route,
            name=canonical_name(route, request.model),
            work=work,
            preparation=b"" if work.rows.shown else to_json(work.rows),
            make_body=self.body_maker(request, route),
            request_id=request.request_id,
            user=request.user,
            priority=request.priority or 0,
            cache_salt=request.cache_salt,
            unknown_fields=unknown,
        )


def _check_inputs(request: TextInput) -> None:
    if request.input is None and request.messages is None:
        raise missing("input")
    if request.input is not None and request.messages is not None:
        raise InvalidRequest("Expected either 'input' or 'messages', not both.", param="messages", code="invalid_value")
    if request.continue_final_message and request.messages is None:
        raise conflicting("continue_final_message", "needs 'messages'")
    if request.continue_final_message and request.add_generation_prompt:
        raise conflicting("continue_final_message", "cannot be joined with 'add_generation_prompt'")


EMBEDDINGS = EncoderEndpoint(
    name="embeddings",
    id_prefix="embd-",
    request=EmbeddingRequest,
    kinds=(ModelKind.EMBEDDING,),
    work=request_rows.embeddings,
    body_maker=lambda request, route: response_bodies.embedded(request),
)
EMBED_BY_TYPE = EncoderEndpoint(
    name="embed",
    id_prefix="embd-",
    request=CohereEmbedRequest,
    kinds=(ModelKind.EMBEDDING,),
    work=cohere_rows.embed,
    body_maker=lambda request, route: response_bodies.embedded_by_type(request),
)
POOLING = EncoderEndpoint(
    name="pooling",
    id_prefix="pool-",
    request=PoolingRequest,
    kinds=tuple(request_rows.POOLING_TASKS),
    work=request_rows.pooling,
    body_maker=lambda request, route: response_bodies.pooled(request),
)
SCORE = EncoderEndpoint(
    name="score",
    id_prefix="score-",
    request=ScoreRequest,
    kinds=(ModelKind.RERANK, ModelKind.EMBEDDING),
    work=request_rows.score,
    body_maker=lambda request, route: response_bodies.scores,
)
CLASSIFY = EncoderEndpoint(
    name="classify",
    id_prefix="classify-",
    request=ClassifyRequest,
    kinds=(ModelKind.CLASSIFY,),
    work=request_rows.classify,
    body_maker=lambda request, route: response_bodies.classes(route),
)


def _rerank(*, with_documents: bool) -> EncoderEndpoint[RerankRequest]:
    return EncoderEndpoint(
        name="rerank",
        id_prefix="rerank-",
        request=RerankRequest,
        kinds=(ModelKind.RERANK, ModelKind.EMBEDDING),
        work=request_rows.rerank,
        body_maker=lambda request, route: response_bodies.ranking(
            request, with_documents=with_documents and route.profile is not Profile.DENGLIN
        ),
    )


RERANK = _rerank(with_documents=True)
RERANK_BRIEF = _rerank(with_documents=False)
"""The same without the texts where the request does not ask for them, as Cohere's second version answers."""

ENCODER_PATHS: Mapping[str, EncoderEndpoint[Any]] = {
    "/v1/embeddings": EMBEDDINGS,
    "/v2/embed": EMBED_BY_TYPE,
    "/v1/rerank": RERANK,
    "/rerank": RERANK,
    "/v2/rerank": RERANK_BRIEF,
    "/v1/score": SCORE,
    "/score": SCORE,
    "/v1/classify": CLASSIFY,
    "/classify": CLASSIFY,
    "/v1/pooling": POOLING,
    "/pooling": POOLING,
}
"""What `EncoderHandler` serves, by POST."""
