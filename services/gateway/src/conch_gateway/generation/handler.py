"""The flow of one generating request, as a list of steps; each step lives in another module.

read → resolve → complete pictures → tokenize → admit and place → deliver. Until the first byte goes out every failure
is a status; afterwards it is an error frame (`Reply.fail` decides).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from os import urandom
from typing import Any, Protocol

from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import Engine
from conch_gateway.answers.delivery import AnswerSaver, Delivery
from conch_gateway.answers.reply import Reply
from conch_gateway.generation.cold_start import HeldCaller
from conch_gateway.generation.endpoints import CHAT, COMPLETIONS, GenerationEndpoint
from conch_gateway.generation.grammar_check import check_grammar
from conch_gateway.generation.job import GenerationJob
from conch_gateway.generation.recurring_parameters import RecurringParameters
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.inference.picture_intake import PictureIntake
from conch_gateway.inference.stages import Stages
from conch_gateway.inference.watchdog import RequestActivity
from conch_gateway.placement.dispatch import Dispatcher
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.requests.template_policy import DEFAULT_POLICY, TemplatePolicy
from conch_kit.http.asgi import Receive

PATHS: Mapping[str, GenerationEndpoint[Any]] = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETIONS}
"""What this module serves, by POST."""


class JobWatcher(Protocol):
    """Who hears how far a request has come."""

    async def accepted(self, job: GenerationJob) -> None:
        """Hear that it is valid and fits the model's context; its work begins behind this."""
        ...

    def asked(self) -> None:
        """Hear that a worker is asked now."""
        ...


class GenerationHandler:
    """Serves the generating endpoints."""

    def __init__(
        self,
        intake: RequestIntake,
        tokenizers: TokenizerClient,
        grammars: TokenizerClient,
        dispatch: Dispatcher,
        pictures: PictureIntake,
        policy: TemplatePolicy = DEFAULT_POLICY,
    ) -> None:
        self._intake = intake
        self._tokenizers = tokenizers
        self._grammars = grammars
        self._dispatch = dispatch
        self._pictures = pictures
        self._policy = policy
        self._recurring = RecurringParameters()

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        resolved = await self._intake.read_and_resolve(
            exchange, receive, partial(endpoint.resolve, policy=self._policy, recurring=self._recurring)
        )
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
        saver: AnswerSaver | None = None,
        watcher: JobWatcher | None = None,
    ) -> None:
        """Do the work and deliver its answer, which `saver` gets before the client hears that it is complete."""
        comment = reply.keep_alive if resolved.stream else None
        routing = resolved.route.routing
        read_at = time.monotonic()
        deadline = read_at + routing.timeout_s
        settings = self._intake.settings
        with self._intake.span(exchange) as span:
            stages = self._intake.stages(exchange, span)
            async with self._intake.watchdog(reply.client, deadline, comment) as watchdog:
                job = await self._tokenize(resolved, response_id, exchange, stages)
                if watcher is not None:
                    await watcher.accepted(job)
                delivery = Delivery(
                    exchange,
                    reply,
                    watchdog.activity,
                    self._intake.metrics.of(exchange.model),
                    inter_token_patience_s=routing.inter_token_timeout_s + settings.worker_grace_s,
                    saver=saver,
                )
                stream = reply if resolved.stream else None
                unheard = watcher is not None
                caller = HeldCaller(
                    exchange, read_at, deadline, settings, watchdog.activity, resolved.priority, stream, unheard
                )
                claim = caller.claim(job.sequences, prepared=job.prompts.size)
                question = _Question(job, delivery, watchdog.activity, deadline, settings.worker_grace_s, watcher)
                deliver = delivery.whole if stream is None else delivery.stream
                owes_nothing = watchdog.activity.owes_nothing
                await self._dispatch.run(resolved.route, stages, claim, question.message, deliver, failed=owes_nothing)

    async def _tokenize(
        self, resolved: ResolvedGeneration, response_id: str, exchange: Exchange, stages: Stages
    ) -> GenerationJob:
        route = resolved.route
        wait = self._tokenizers.wait(route)
        preparation = resolved.preparation
        if resolved.with_pictures is not None:
            preparation = await self._pictures.written(resolved.with_pictures, route, exchange)
        with stages.tokenizing() as headers:
            if resolved.constraint is not None and not resolved.findings.grammar_holds:
                await check_grammar(self._grammars, resolved.constraint, route, headers, wait, resolved.tools)
                resolved.findings.grammar_holds = True
            ids = (exchange.request_id, response_id)
            read = partial(GenerationJob.of, resolved, ids=ids, created=int(time.time()))
            job = await self._tokenizers.post(PREPARE_PATH, preparation, headers, route, read, wait)
        resolved.forget_prompt()
        return job


@dataclass(slots=True)
class _Question:
    """What a worker is asked, and who hears that it is."""

    job: GenerationJob
    delivery: Delivery
    activity: RequestActivity
    deadline: float
    """When the answer must be complete."""
    grace_s: float
    """How much longer than the worker may be silent the gateway waits for it."""
    watcher: JobWatcher | None

    def message(self, engine: Engine) -> bytes:
        """Return the message that asks a worker to do the job on this engine now."""
        now = time.monotonic()
        self.delivery.asked(self.job.prompt_tokens)
        if self.watcher is not None:
            self.watcher.asked()
        if self.job.resolved.stream:
            self.activity.asked = now
            self.activity.patience_s = self.job.resolved.route.routing.first_token_timeout_s + self.grace_s
        return self.job.message(engine, timeout_s=max(0.001, self.deadline - now))
