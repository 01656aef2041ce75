"""The flow of one request to an encoder, as a list of steps; each step lives in a module of its own.

read → understand → tokenize → look into the cache → admit and place → shape.
"""

import time
from dataclasses import dataclass
from os import urandom

import orjson

from conch_contracts.encoding import EncodeRequest, EncoderTarget, PrepareRowsResponse, Row
from conch_contracts.headers import CACHE
from conch_contracts.records import Engine
from conch_gateway.admission import Claim
from conch_gateway.dispatch import Dispatch
from conch_gateway.encoders.answers import SharedAnswers
from conch_gateway.encoders.endpoints import ENCODER_PATHS, Understood
from conch_gateway.encoders.request import Front, off_loop
from conch_gateway.encoders.texts import Head
from conch_gateway.endpoints import encode
from conch_gateway.exchange import Exchange
from conch_gateway.metrics import GatewayMetrics
from conch_gateway.reply import JSON, Reply
from conch_gateway.stages import Stages
from conch_gateway.tokenizers import Tokenizers
from conch_gateway.upstream.port import Answer, read_all
from conch_gateway.watch import Watch
from conch_kit.asgi import Receive
from conch_kit.errors import InvalidRequest, UpstreamError
from conch_kit.tracing import Tracer

MAX_TOKENS = 1_000_000
"""Of one request, all its rows together."""
MAX_ANSWER_BYTES = 160 * 1024 * 1024
"""2,048 vectors of 4,096 numbers; the worker bounds the vectors of tokens by itself, and lower."""
ROWS_PER_PLACE = 32
"""Rows that take one of an engine's slots, about a batch."""


@dataclass(frozen=True, slots=True)
class Job:
    """A request whose texts are counted: all but the engine is decided."""

    understood: Understood
    rows: tuple[Row, ...]
    packed: orjson.Fragment
    """The rows as JSON, which all messages of this job share: a million ids take a while to write."""
    request_id: str

    @classmethod
    def of(cls, understood: Understood, prepared: bytes, request_id: str) -> "Job":
        """Return the job of a request whose rows are these, as the tokenizer wrote them."""
        rows = PrepareRowsResponse.model_validate_json(prepared).rows
        packed = orjson.Fragment(orjson.dumps([{"ids": row.ids, "second": row.second} for row in rows]))
        return cls(understood, rows, packed, request_id)

    @property
    def tokens(self) -> int:
        """How many tokens all rows have together."""
        return sum(len(row.ids) for row in self.rows)

    def message(self, engine: Engine, timeout_s: float) -> bytes:
        """Return the message that asks a worker to run this job on `engine`."""
        route, work = self.understood.route, self.understood.work
        profile = route.encoder
        request = EncodeRequest(
            request_id=self.request_id,
            target=EncoderTarget(
                address=engine.grpc, model=route.engine_model, inputs=profile.inputs, output=profile.output
            ),
            task=work.task,
            rows=(),
            firsts=work.firsts,
            pooling=profile.pooling,
            normalize=work.normalize,
            activation=work.activation,
            dimensions=work.dimensions,
            base64=work.base64,
            timeout_s=timeout_s,
        )
        return orjson.dumps({**vars(request), "rows": self.packed}, default=vars)

    def identity(self) -> bytes:
        """Return everything that the worker's answer depends on."""
        route, work = self.understood.route, self.understood.work
        profile = route.encoder.model_dump(mode="json", exclude={"cache_ttl_s"})
        chosen = [work.task, work.normalize, work.activation, work.dimensions, work.base64, work.firsts]
        place = [route.model_id, route.engine_model, route.tokenizer_digest, route.created]
        return orjson.dumps([place, profile, chosen, self.packed])


class EncoderInference:
    """Serves the endpoints of encoders."""

    def __init__(
        self,
        front: Front,
        tokenizers: Tokenizers,
        dispatch: Dispatch,
        answers: SharedAnswers,
        metrics: GatewayMetrics,
        tracer: Tracer,
    ) -> None:
        self._front = front
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self._answers = answers
        self._metrics = metrics
        self._tracer = tracer

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `ENCODER_PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = ENCODER_PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        understood = await self._front.understand(exchange, receive, endpoint.understand)
        exchange.model = understood.route.served_names[0]
        if understood.unknown_fields:
            self._metrics.unknown_fields.inc(understood.unknown_fields)
        deadline = time.monotonic() + understood.route.routing.timeout_s
        with self._tracer.span(endpoint.name, exchange.traceparent) as span:
            span.set("model", exchange.model)
            stages = Stages(self._tracer, span, self._metrics.of(exchange.model), self._front.headers(exchange))
            async with Watch(reply.client, None, self._front.limits(deadline)) as watch:
                job = await self._tokenize(understood, exchange, stages)
                answer, headers = await self._answer(job, stages, deadline)
                exchange.prompt_tokens = job.tokens
                head = Head(
                    id=endpoint.id_prefix + urandom(16).hex(),
                    created=int(time.time()),
                    model=understood.name,
                    tokens=job.tokens,
                )
                body = await off_loop(len(answer), understood.shape, head, answer)
                watch.progress.sending = time.monotonic()
                await reply.whole(200, body, (JSON, *headers))

    async def _tokenize(self, understood: Understood, exchange: Exchange, stages: Stages) -> Job:
        with stages.tokenizing() as headers:
            prepared = await self._tokenizers.prepare(encode(understood.work.rows), headers)
        job = await off_loop(len(prepared), Job.of, understood, prepared, exchange.request_id)
        _check_lengths(job)
        return job

    async def _answer(self, job: Job, stages: Stages, deadline: float) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
        """Return the worker's answer, and the headers that say where it comes from."""
        ttl_s = job.understood.route.encoder.cache_ttl_s
        if ttl_s is None:
            return await self._run(job, stages, deadline), ()
        shared = await self._answers.get(job.identity(), ttl_s, lambda: self._run(job, stages, deadline))
        return shared.body, ((CACHE.encode(), b"hit" if shared.hit else b"miss"),)

    async def _run(self, job: Job, stages: Stages, deadline: float) -> bytes:
        answers: list[bytes] = []

        async def deliver(answer: Answer) -> None:
            body = await read_all(answer, limit=MAX_ANSWER_BYTES)
            if not body.startswith(b"{"):
                raise UpstreamError("The worker's answer is not a JSON object.")
            answers.append(body)

        def message(engine: Engine) -> bytes:
            return job.message(engine, max(0.001, deadline - time.monotonic()))

        places = -(-len(job.rows) // ROWS_PER_PLACE)
        await self._dispatch.run(job.understood.route, stages, Claim(places), message, deliver)
        return answers[0]


def _check_lengths(job: Job) -> None:
    """Refuse what the model or the gateway does not take; raises InvalidRequest."""
    limit, param = job.understood.route.max_model_len, job.understood.work.param
    longest = max(range(len(job.rows)), key=lambda index: len(job.rows[index].ids))
    length = len(job.rows[longest].ids)
    if length > limit:
        raise InvalidRequest(
            f"This model's maximum context length is {limit} tokens. However, the text at index {longest} of your "
            f"{param} has {length} tokens. Please shorten it, or set 'truncate_prompt_tokens'.",
            param=param,
            code="context_length_exceeded",
        )
    if job.tokens > MAX_TOKENS:
        raise InvalidRequest(
            f"Expected at most {MAX_TOKENS} tokens in one request, found {job.tokens}.", param=param, code="too_complex"
        )
