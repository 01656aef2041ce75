"""Fakes for the gateway's ports: an upstream that plays a script, an ASGI client, and ready-made records."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from conch_contracts.names import (
    CHECK_GRAMMAR_PATH,
    GENERATE_PATH,
    PREPARE_PATH,
    Digest,
    EngineAddress,
    ModelId,
    ServedName,
    WorkerUrl,
)
from conch_contracts.records import Dialect, Engine, Heartbeat, ModelKind, Pool, Route
from conch_gateway.app.assembly import Deps, create_app
from conch_gateway.app.wake_endpoint import Wake
from conch_gateway.encoders.answer_cache import NoStore, Store
from conch_gateway.http.auth import ApiKeys
from conch_gateway.inference.picture_intake import PictureSource
from conch_gateway.placement.admission import HELD_BYTES, QUEUED_BYTES, Admission
from conch_gateway.placement.media_client import MediaClient
from conch_gateway.responses.store import ResponseStore
from conch_gateway.settings import GatewaySettings
from conch_gateway.telemetry.access_log import AccessLog
from conch_gateway.telemetry.metrics import GatewayMetrics
from conch_gateway.upstream.port import AnswerLost, Post
from conch_kit.http.asgi import ASGIApp, Message
from conch_kit.http.caller_connection import CONNECTION
from conch_kit.json_bytes import json_bytes
from conch_kit.registry.snapshot import Snapshot
from conch_kit.tracing import Tracer, tracer
from testkit.gateway.body_source import read_source
from testkit.gateway.memory_responses import MemoryResponses

DIGEST = Digest("0" * 64)
TOKENIZER = WorkerUrl("http://127.0.0.1:7001")
WORKER = WorkerUrl("http://127.0.0.1:7002")
ENGINE = EngineAddress("127.0.0.1:8001")


def route(**changes: Any) -> Route:
    """Return a route of an LLM called tiny-chat."""
    fields: dict[str, Any] = {
        "model_id": ModelId("local/tiny-chat"),
        "served_names": (ServedName("tiny-chat"),),
        "kind": ModelKind.LLM,
        "dialect": Dialect.TOKENS,
        "engine_model": "tiny-chat",
        "tokenizer_digest": DIGEST,
        "max_model_len": 64,
        "vocab_size": 1000,
        "eos_token_ids": (2,),
        "created": 1_700_000_000,
    }
    return Route(**{**fields, **changes})


def snapshot(
    *routes: Route,
    engines: Sequence[Engine] = (Engine(grpc=ENGINE),),
    workers: Sequence[WorkerUrl] = (WORKER,),
    tokenizers: Sequence[WorkerUrl] = (TOKENIZER,),
) -> Snapshot:
    """Return a snapshot in which every route has these engines."""
    known = routes or (route(),)
    return Snapshot(
        revision=1,
        routes={item.model_id: item for item in known},
        engines={item.model_id: tuple(engines) for item in known},
        workers={
            Pool.LLM: tuple(Heartbeat(url=url, sequence=1) for url in workers),
            Pool.EMBED: tuple(Heartbeat(url=url, sequence=1) for url in workers),
            Pool.SPEECH: tuple(Heartbeat(url=url, sequence=1) for url in workers),
            Pool.TOKENIZER: tuple(Heartbeat(url=url, sequence=1) for url in tokenizers),
        },
        by_name={name: item for item in known for name in item.served_names},
    )


@dataclass(slots=True)
class FakeAnswer:
    """An answer whose body comes in the given pieces; an exception among them is raised."""

    status: int = 200
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    pieces: Sequence[bytes | Exception | asyncio.Event] = ()
    _next: int = 0

    async def read(self) -> bytes:
        while self._next < len(self.pieces):
            piece = self.pieces[self._next]
            self._next += 1
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            elif isinstance(piece, Exception):
                raise piece
            else:
                return piece
        return b""

    async def push(self, sink: Callable[[bytes], bool]) -> None:
        while self._next < len(self.pieces):
            piece = self.pieces[self._next]
            if not isinstance(piece, bytes) or not self._offered(sink, piece):
                return
            self._next += 1

    @staticmethod
    def _offered(sink: Callable[[bytes], bool], piece: bytes) -> bool:
        try:
            return sink(piece)
        except Exception as exc:
            raise AssertionError("A sink may not raise: it is called from the socket's callback.") from exc


Script = Callable[[Post], FakeAnswer | Exception]


class FakeUpstream:
    """Answers by path; a path without a script is a failure of the test."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts
        self.posts: list[Post] = []
        self.files: list[bytes] = []
        """What followed the bodies of those posts that had something to follow."""
        self.open = 0
        self._asked = {path: asyncio.Event() for path in scripts}

    def asked(self, path: str) -> asyncio.Event:
        """Return the event that is set once `path` was posted to."""
        return self._asked[path]

    def sent(self, path: str) -> list[dict[str, Any]]:
        """Return the JSON bodies that were posted to `path`."""
        return [orjson.loads(post.body) for post in self.posts if post.path == path]

    @asynccontextmanager
    async def post(self, request: Post) -> AsyncIterator[FakeAnswer]:
        self.posts.append(request)
        if request.rest is not None:
            self.files.append(await read_source(request.rest))
        answer = self._scripts[request.path](request)
        if isinstance(answer, Exception):
            raise answer
        self.open += 1
        self._asked[request.path].set()
        try:
            yield answer
        finally:
            self.open -= 1


def prepared(*lengths: int) -> Script:
    """Return a tokenizer that makes prompts of these lengths."""
    prompts = [{"ids": list(range(length)), "text": "x" * length} for length in lengths]
    body = orjson.dumps({"prompts": prompts})
    return lambda _: FakeAnswer(pieces=(body,))


def rows(*lengths: int) -> Script:
    """Return a tokenizer that makes rows of these lengths."""
    body = orjson.dumps({"rows": [{"ids": list(range(1, length + 1))} for length in lengths]})
    return lambda _: FakeAnswer(pieces=(body,))


def streamed(*pieces: bytes | Exception | asyncio.Event) -> Script:
    """Return a worker that streams these pieces."""
    return lambda _: FakeAnswer(headers={b"content-type": b"text/event-stream"}, pieces=pieces)


def answered(body: bytes, usage: bytes = b'{"prompt_tokens":3,"completion_tokens":2}') -> Script:
    """Return a worker that gives a complete answer."""
    return lambda _: FakeAnswer(headers={b"x-conch-usage": usage}, pieces=(body,))


def refused(
    status: int, message: str, *, param: str | None = None, code: str | None = None, retryable: bool = False
) -> FakeAnswer:
    """Return an error answer as internal services give it."""
    kind = {"message": message, "type": "x", "param": param, "code": code}
    headers = {b"x-conch-retryable": b"true"} if retryable else {}
    return FakeAnswer(status, headers, (orjson.dumps({"error": kind}),))


def lost(*, started: bool = False) -> AnswerLost:
    """Return a broken connection."""
    return AnswerLost("gone", started=started)


@dataclass(slots=True)
class Answered:
    """What a client got."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    pieces: list[bytes]

    @property
    def error(self) -> dict[str, Any]:
        """The error object of the body."""
        found: dict[str, Any] = orjson.loads(self.body)["error"]
        return found


class FakeConnection:
    """The client's connection: takes pieces while `room` says that there is any."""

    def __init__(self, messages: list[Message], room: Callable[[], bool]) -> None:
        self.on_gone: Callable[[], None] | None = None
        self.gone = False
        self.aborted = False
        self.allowed_s = 0.0
        """How long a body may take."""
        self._messages = messages
        self._room = room

    @property
    def pieces(self) -> list[bytes]:
        """The pieces of the body so far."""
        return [message.get("body", b"") for message in self._messages if message["type"] == "http.response.body"]

    def hang_up(self) -> None:
        """Lose the connection."""
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()

    def allow_body(self, seconds: float) -> None:
        self.allowed_s = seconds

    def abort(self) -> None:
        self.aborted = True
        self.hang_up()

    def push(self, data: bytes) -> bool:
        if not data:  # asked before each piece; the answer holds until that piece is written
            return self._room()
        self._messages.append({"type": "http.response.body", "body": data, "more_body": True})
        return True


class Client:
    """Calls an ASGI application without sockets; `hang_up` ends its connections."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.connections: list[FakeConnection] = []
        self.room: Callable[[], bool] = lambda: True

    def hang_up(self) -> None:
        """Lose every connection."""
        for connection in self.connections:
            connection.hang_up()

    async def post(self, path: str, body: object, headers: Sequence[tuple[bytes, bytes]] = ()) -> Answered:
        """POST a JSON value, or bytes as they are."""
        return await self.call("POST", path, body if isinstance(body, bytes) else json_bytes(body), headers)

    async def get(self, path: str, headers: Sequence[tuple[bytes, bytes]] = (), *, query: bytes = b"") -> Answered:
        """GET a path."""
        return await self.call("GET", path, b"", headers, query=query)

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        query: bytes = b"",
    ) -> Answered:
        """Make one request."""
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "http_version": "1.1",
            "scheme": "http",
            "headers": [(b"host", b"test"), *headers],
        }
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        messages: list[Message] = []

        connection = FakeConnection(messages, self.room)
        self.connections.append(connection)
        scope["extensions"] = {CONNECTION: {"port": connection}}

        async def receive() -> Message:
            return pending.pop() if pending else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, send)
        nothing: Message = {"status": 0, "headers": []}
        start = next((m for m in messages if m["type"] == "http.response.start"), nothing)
        return Answered(start["status"], dict(start["headers"]), b"".join(connection.pieces), connection.pieces)


@dataclass(slots=True)
class Gateway:
    """A gateway application on fakes."""

    client: Client
    upstream: FakeUpstream
    registry: CollectorRegistry
    admission: Admission
    learn: Callable[[Snapshot], None]
    """Give it another view of the registry."""


async def never_woken(model: ModelId, for_s: float) -> float:
    """Be asked for a model to be awake, though the test expects that nobody asks."""
    raise AssertionError(f"Somebody wants {model} awake for {for_s:g} s.")


def gateway(
    scripts: Mapping[str, Script] | None = None,
    *,
    known: Snapshot | None = None,
    keys: ApiKeys | None = None,
    spans: Tracer | None = None,
    store: Store | None = None,
    responses: ResponseStore | None = None,
    access_log: AccessLog | None = None,
    pictures: PictureSource | None = None,
    reachable: Callable[[ModelKind], bool] = lambda _: True,
    once_there: Callable[[Pool], bool] = lambda _: False,
    wake: Wake = never_woken,
    held_bytes: int = HELD_BYTES,
    queued_bytes: int = QUEUED_BYTES,
    **settings: Any,
) -> Gateway:
    """Return a gateway whose tokenizer makes three ids of everything, unless `scripts` say otherwise."""
    usual = {PREPARE_PATH: prepared(3), CHECK_GRAMMAR_PATH: answered(b"{}"), GENERATE_PATH: answered(b"{}")}
    upstream = FakeUpstream({**usual, **(scripts or {})})
    registry = CollectorRegistry()
    admission = Admission(held_bytes=held_bytes, queued_bytes=queued_bytes)
    state = Snapshot.EMPTY

    def learn(seen: Snapshot) -> None:
        nonlocal state
        state = seen
        admission.apply(seen)

    learn(known or snapshot())
    deps = Deps(
        snapshot=lambda: state,
        not_ready=lambda: None,
        known=once_there,
        reachable=reachable,
        upstream=upstream,
        tokenizers=upstream,
        admission=admission,
        keys=keys or ApiKeys(None),
        metrics=GatewayMetrics(registry),
        access_log=access_log or AccessLog(None),
        tracer=spans or tracer("test", None),
        responses=responses or MemoryResponses(),
        wake=wake,
        store=store or NoStore(),
        pictures=pictures or MediaClient(upstream, "", None),
    )
    app = create_app(deps, GatewaySettings(redis_url="redis://unused", **settings))
    return Gateway(Client(app), upstream, registry, admission, learn)
