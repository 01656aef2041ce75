"""The flow of one request to an encoder, as a list of steps; each step lives in another module.

read → resolve → tokenize → look into the cache → admit and place → make the body.
"""

import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from os import urandom

import orjson

from conch_contracts.headers import CACHE
from conch_contracts.messages.encoding import EncodeRequest, EncoderTarget, PrepareRowsResponse, Row
from conch_contracts.messages.message import InvalidMessage, Written, from_json, to_json, written
from conch_contracts.names import PREPARE_ROWS_PATH
from conch_contracts.records import Engine
from conch_gateway.answers.reply import Reply
from conch_gateway.encoders.answer_cache import Computation, SharedAnswers
from conch_gateway.encoders.endpoints import ENCODER_PATHS, ResolvedEncoding
from conch_gateway.encoders.input_length import too_long
from conch_gateway.encoders.request_rows import Head
from conch_gateway.encoders.text_names import TextNames
from conch_gateway.errors.bad_request import invalid
from conch_gateway.generation.cold_start import HeldCaller
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake, off_loop
from conch_gateway.inference.picture_intake import PictureIntake
from conch_gateway.inference.stages import Stages
from conch_gateway.placement.claim import Claim
from conch_gateway.placement.dispatch import Dispatcher
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.upstream.port import Header, UpstreamResponse, read_all
from conch_kit.errors import InvalidRequest, UpstreamError
from conch_kit.http.asgi import Receive

MAX_TOKENS = 1_000_000
"""Of one request, all its rows together."""
MAX_ANSWER_BYTES = 160 * 1024 * 1024
"""2,048 vectors of 4,096 numbers; the worker bounds the vectors of tokens by itself, and lower."""
ROWS_PER_SLOT = 32
"""Rows that take one of an engine's slots, about a batch."""


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """A request whose texts are counted and whose pictures are read: all but the engine is decided."""

    resolved: ResolvedEncoding
    rows: Written[Row]
    """As a worker gets them. There may be megabytes of pictures, which a waiting request keeps once."""
    tokens: int
    """Of all rows together."""
    request_id: str

    @classmethod
    def of(cls, resolved: ResolvedEncoding, prepared: bytes, request_id: str) -> "EncodeJob":
        """Return the job of a request whose rows are these, as the tokenizer wrote them.

        Raises InvalidMessage, and InvalidRequest for what the model or the gateway does not take.
        """
        answer = from_json(PrepareRowsResponse, prepared)
        if not answer.rows:
            raise InvalidMessage("no rows")
        tokens = sum(row.tokens for row in answer.rows)
        _check_lengths(resolved, answer, tokens)
        return cls(resolved, written(answer.rows), tokens, request_id)

    def message(self, engine: Engine, timeout_s: float) -> bytes:
        """Return the message that asks a worker to run this job on `engine`."""
        route, work = self.resolved.route, self.resolved.work
        profile = route.encoder
        request = EncodeRequest(
            request_id=self.request_id,
            target=EncoderTarget(
                address=engine.grpc,
                named_in=engine.named_in,
                model=engine.model or route.engine_model,
                inputs=profile.inputs,
                output=profile.output,
                patience_s=route.routing.first_token_timeout_s,
            ),
            task=work.task,
            rows=self.rows.json,
            firsts=work.firsts,
            pooling=profile.pooling,
            normalize=work.normalize,
            activation=work.activation,
            dimensions=work.dimensions,
            base64=work.base64,
            dtype=work.dtype,
            big_endian=work.big_endian,
            shapes=work.shapes,
            pooled=work.pooled,
            types=work.types,
            timeout_s=timeout_s,
        )
        return to_json(request)

    def key(self) -> str:
        """Return a digest of everything that the worker's answer depends on."""
        route, work = self.resolved.route, self.resolved.work
        profile = route.encoder.model_dump(mode="json", exclude={"cache_ttl_s"})
        form = [work.base64, work.dtype, work.big_endian, work.shapes, work.pooled, work.types]
        chosen = [work.task, work.normalize, work.activation, work.dimensions, work.firsts, form]
        place = [route.model_id, route.engine_model, route.tokenizer_digest, route.created, self.resolved.cache_salt]
        digest = hashlib.sha256(orjson.dumps([place, profile, chosen]))
        digest.update(self.rows.json)
        return digest.hexdigest()


class EncoderHandler:
    """Serves the endpoints of encoders."""

    def __init__(
        self,
        intake: RequestIntake,
        tokenizers: TokenizerClient,
        dispatch: Dispatcher,
        pictures: PictureIntake,
        answers: SharedAnswers,
    ) -> None:
        self._intake = intake
        self._pictures = pictures
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self._answers = answers

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `ENCODER_PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = ENCODER_PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        resolved = await self._intake.read_and_resolve(exchange, receive, endpoint.resolve)
        exchange.user = resolved.user
        if resolved.request_id is not None:
            exchange.rename(resolved.request_id)
        read_at = time.monotonic()
        deadline = read_at + resolved.route.routing.timeout_s
        with self._intake.span(exchange) as span:
            stages = self._intake.stages(exchange, span)
            # An answer is kept when the watchdog has ended: many a client hangs up as soon as it has its own.
            async with AsyncExitStack() as answered, self._intake.watchdog(reply.client, deadline) as watchdog:
                job = await self._tokenize(resolved, exchange, stages)
                settings = self._intake.settings
                caller = HeldCaller(exchange, read_at, deadline, settings, watchdog.activity, resolved.priority)
                sequences = -(-job.rows.count // ROWS_PER_SLOT)
                claim = caller.claim(sequences, prepared=job.rows.size)
                answer, headers = await answered.enter_async_context(self._answer(job, claim, stages, deadline))
                exchange.prompt_tokens = job.tokens
                head = Head(
                    id=endpoint.id_prefix + (resolved.request_id or urandom(16).hex()),
                    created=int(time.time()),
                    model=resolved.name,
                    tokens=job.tokens,
                )
                body = await off_loop(len(answer), resolved.make_body, head, answer)
                watchdog.activity.sending = time.monotonic()
                await reply.whole(200, body.content, (*body.headers, *headers))
                watchdog.activity.sending = 0.0

    async def _tokenize(self, resolved: ResolvedEncoding, exchange: Exchange, stages: Stages) -> EncodeJob:
        work, message = resolved.work, resolved.preparation
        if work.rows.shown:
            message = await self._pictures.written(work.rows, resolved.route, exchange)
        try:
            with stages.tokenizing() as headers:
                read = partial(EncodeJob.of, resolved, request_id=exchange.request_id)
                return await self._tokenizers.post(PREPARE_ROWS_PATH, message, headers, resolved.route, read)
        except InvalidRequest as error:
            raise _in_clients_words(error, work.names) from None

    @asynccontextmanager
    async def _answer(
        self, job: EncodeJob, claim: Claim, stages: Stages, deadline: float
    ) -> AsyncIterator[tuple[bytes, tuple[Header, ...]]]:
        """Give the worker's answer, and the headers that say where it comes from."""
        route = job.resolved.route
        wait, ttl_s = self._dispatch.wait(route, claim), route.encoder.cache_ttl_s
        if ttl_s is None:
            yield await self._run(job, claim, stages, deadline, wait), ()
            return
        key = await off_loop(job.rows.size, job.key)
        make = partial(self._run, job, claim, stages, deadline, wait)
        shares = not self._dispatch.holds(route)
        reads = not self._dispatch.all_outdated(route)  # else vectors of two models would come in turn
        answers = self._answers.get(key, ttl_s, make, wait, priority=claim.priority, shares=shares, reads=reads)
        async with answers as shared:
            yield shared.body, ((CACHE.encode(), b"hit" if shared.hit else b"miss"),)

    async def _run(
        self,
        job: EncodeJob,
        claim: Claim,
        stages: Stages,
        deadline: float,
        wait: TimeLeft,
        computation: Computation | None = None,
    ) -> bytes:
        answers: list[bytes] = []

        async def deliver(answer: UpstreamResponse) -> None:
            body = await read_all(answer, limit=MAX_ANSWER_BYTES)
            if not body.startswith(b"{"):
                raise UpstreamError("The worker's answer is not a JSON object.")
            answers.append(body)

        def message(engine: Engine) -> bytes:
            if computation is not None:  # the key is that of the model as it was when the request came
                keeps = not engine.outdated and self._dispatch.has_files_of(job.resolved.route)
                computation.begins(may_be_kept=keeps)
            return job.message(engine, max(0.001, deadline - time.monotonic()))

        def failed() -> None:
            if computation is not None:
                computation.waits_again()

        try:
            await self._dispatch.run(job.resolved.route, stages, claim, message, deliver, wait=wait, failed=failed)
        except InvalidRequest as error:
            raise _renamed(error, job.resolved.work.names) from None
        return answers[0]


def _in_clients_words(error: InvalidRequest, names: TextNames) -> InvalidRequest:
    """Return the tokenizer's error with the client's name of what is wrong."""
    param = names.of(error.param)
    if param is not None and error.code == "invalid_value":
        return invalid(param, error.message)
    return InvalidRequest(error.message, param=param, code=error.code)


def _renamed(error: InvalidRequest, names: TextNames) -> InvalidRequest:
    """Return the worker's error with the client's name of the parameter."""
    return InvalidRequest(error.message, param=names.of(error.param), code=error.code)


def _check_lengths(resolved: ResolvedEncoding, answer: PrepareRowsResponse, tokens: int) -> None:
    """Refuse rows that the model or the gateway does not take; raises InvalidRequest."""
    limit, names = resolved.route.max_model_len, resolved.work.names
    longest = max(range(len(answer.rows)), key=lambda index: len(answer.rows[index].ids))
    length = len(answer.rows[longest].ids)
    if length > limit:
        param, length = names.of_first(longest, answer.firsts, limit) or (names.of_row(longest), length)
        raise too_long(limit, length, param=param, cut=names.cut)
    most = resolved.work.max_tokens
    if most is not None and length > most:
        param = names.of_row(longest)
        raise InvalidRequest(
            f"Your '{param}' has {length} tokens, and 'max_tokens' is {most}. "
            f"Please send a shorter text, or {names.cut}.",
            param=param,
            code="context_length_exceeded",
        )
    if tokens > MAX_TOKENS:
        raise InvalidRequest(
            f"Expected at most {MAX_TOKENS} tokens in one request, found {tokens}.",
            param=names.whole,
            code="too_complex",
        )
