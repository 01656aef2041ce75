"""`POST /invocations`: one path for every endpoint, as SageMaker calls a model; the body's fields say which is meant.

Where several endpoints have a field, as `messages`, the kind of the model decides. The endpoint itself reads the body
again and serves the request as if it had come on its own path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from conch_contracts.openai.encoders.scores import SIDES
from conch_contracts.records import ModelKind, Route
from conch_gateway.answers.reply import Reply
from conch_gateway.app.edge import PostHandler
from conch_gateway.http.body import parse
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.requests.model_lookup import find_route
from conch_kit.errors import InvalidRequest
from conch_kit.http.asgi import Message, Receive
from conch_kit.registry.snapshot import Snapshot

PATH = "/invocations"


@dataclass(frozen=True, slots=True)
class InvocationTarget:
    """An endpoint, and what shows that it is meant."""

    path: str
    fields: tuple[str, ...]
    """Any of them shows it."""
    kinds: tuple[ModelKind, ...]
    """Of the models that serve it."""


TARGETS = (
    InvocationTarget("/v1/chat/completions", ("messages",), (ModelKind.LLM,)),
    InvocationTarget("/v1/completions", ("prompt", "prompt_token_ids"), (ModelKind.LLM,)),
    InvocationTarget("/v1/rerank", ("query",), (ModelKind.RERANK, ModelKind.EMBEDDING)),
    InvocationTarget(
        "/v1/score", tuple(dict.fromkeys(first for first, _ in SIDES)), (ModelKind.RERANK, ModelKind.EMBEDDING)
    ),
    InvocationTarget("/v1/embeddings", ("input", "messages"), (ModelKind.EMBEDDING,)),
    InvocationTarget("/v1/classify", ("input", "messages"), (ModelKind.CLASSIFY,)),
)
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class ResolvedInvocation:
    """The path on which a request is served, and its model."""

    path: str
    route: Route
    unknown_fields: int = 0
    """They are counted where the request is served."""


def resolve(body: bytes, snapshot: Snapshot) -> ResolvedInvocation:
    """Return where the request that the body holds is served; raises a ServiceError."""
    document = parse(body)
    possible = [one for one in TARGETS if any(document.get(field) is not None for field in one.fields)]
    if not possible:
        shown = ", ".join(f"'{field}'" for field in dict.fromkeys(one.fields[0] for one in TARGETS))
        raise InvalidRequest(
            f"The body shows no endpoint that is meant: expected one of {shown}.", code="missing_required_parameter"
        )
    model = document.get("model")
    kinds = tuple(dict.fromkeys(kind for one in possible for kind in one.kinds))
    route = find_route(snapshot, model if isinstance(model, str) else None, kinds=kinds)
    return ResolvedInvocation(next(one.path for one in possible if route.kind in one.kinds), route)


class Invocations:
    """Serves the path."""

    def __init__(self, intake: RequestIntake, posts: Mapping[str, PostHandler]) -> None:
        self._intake = intake
        self._posts = posts

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""
        exchange.endpoint = "invocations"
        raw = await self._intake.read(exchange, receive)
        resolved = await self._intake.resolve(exchange, len(raw), partial(resolve, raw))
        once = [raw]
        del raw  # a stream lasts long, and needs it no more

        async def again() -> Message:
            return {"type": "http.request", "body": once.pop(), "more_body": False}

        exchange.path = resolved.path
        try:
            await self._posts[resolved.path].serve(exchange, again, reply)
        finally:
            exchange.path = PATH
