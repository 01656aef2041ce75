"""The flow of one generating request, as a list of steps; each step lives in a module of its own.

read → resolve → tokenize → admit and place → deliver. Until the first byte goes out every failure is a status;
afterwards it is an error frame (`reply.py` decides).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from os import urandom
from typing import Any

from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import Engine
from conch_gateway.answers.delivery import AnswerSaver, Delivery
from conch_gateway.answers.reply import Reply
from conch_gateway.generation.endpoints import CHAT, COMPLETIONS, GenerationEndpoint, GenerationJob, ResolvedGeneration
from conch_gateway.generation.grammar_check import check_grammar
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake, off_loop
from conch_gateway.inference.stages import Stages
from conch_gateway.inference.watchdog import RequestWatchdog
from conch_gateway.placement.admission import Claim
from conch_gateway.placement.dispatch import Dispatcher
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.requests.template_policy import DEFAULT_POLICY, TemplatePolicy
from conch_kit.http.asgi import Receive

PATHS: Mapping[str, GenerationEndpoint[Any]] = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETIONS}
"""What this module serves, by POST."""


@dataclass(frozen=True, slots=True)
class RequestRun:
    """What accompanies one request from the moment in which it is resolved."""

    stages: Stages
    watch: RequestWatchdog
    deadline: float
    """When the answer must be complete, on the monotonic clock."""
    keeper: AnswerSaver | None = None
    """Who gets the answer before the client hears that it is complete."""


class GenerationHandler:
    """Serves the generating endpoints."""

    def __init__(
        self,
        front: RequestIntake,
        tokenizers: TokenizerClient,
        dispatch: Dispatcher,
        policy: TemplatePolicy = DEFAULT_POLICY,
    ) -> None:
        self._front = front
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self._policy = policy

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        resolve = partial(endpoint.resolve, policy=self._policy)
        resolved = await self._front.read_and_resolve(exchange, receive, resolve)
        exchange.user, exchange.metadata = resolved.request.user, resolved.request.metadata
        if resolved.request.request_id is not None:
            exchange.rename(resolved.request.request_id)
        await self.answer(resolved, resolved.answer_id(urandom(16).hex()), exchange, reply)

    async def answer(
        self,
        resolved: ResolvedGeneration,
        response_id: str,
        exchange: Exchange,
        reply: Reply,
        keeper: AnswerSaver | None = None,
    ) -> None:
        """Do the work and deliver its answer, which a keeper gets before the client hears that it is complete."""
        comment = reply.keep_alive if resolved.stream else None
        deadline = time.monotonic() + resolved.route.routing.timeout_s
        with self._front.span(exchange) as span:
            stages = self._front.stages(exchange, span)
            async with self._front.watch(reply.client, deadline, comment) as watch:
                job = await self._tokenize(resolved, response_id, exchange, stages)
                await self._run(job, exchange, reply, RequestRun(stages, watch, deadline, keeper))

    async def _tokenize(
        self, resolved: ResolvedGeneration, response_id: str, exchange: Exchange, stages: Stages
    ) -> GenerationJob:
        with stages.tokenizing() as headers:
            if resolved.constraint is not None:
                await check_grammar(self._tokenizers, resolved.constraint, resolved.route, headers)
            prepared = await self._tokenizers.post(PREPARE_PATH, resolved.preparation, headers)
        ids = (exchange.request_id, response_id)
        return await off_loop(
            len(prepared), partial(GenerationJob.of, ids=ids, created=int(time.time())), resolved, prepared
        )

    async def _run(self, job: GenerationJob, exchange: Exchange, reply: Reply, course: RequestRun) -> None:
        route, progress, grace_s = job.resolved.route, course.watch.progress, self._front.bounds.worker_grace_s
        delivery = Delivery(
            exchange,
            reply,
            progress,
            self._front.metrics.of(exchange.model),
            inter_token_patience_s=route.routing.inter_token_timeout_s + grace_s,
            keeper=course.keeper,
        )

        def message(engine: Engine) -> bytes:
            now = time.monotonic()
            if job.resolved.stream:
                progress.asked = now
                progress.patience_s = route.routing.first_token_timeout_s + grace_s
            return job.message(engine, timeout_s=max(0.001, course.deadline - now))

        deliver = delivery.stream if job.resolved.stream else delivery.whole
        claim = Claim(job.sequences, job.resolved.priority)
        await self._dispatch.run(route, course.stages, claim, message, deliver)
