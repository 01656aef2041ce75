"""The flow of one request with a file of speech, as a list of steps; each step lives in another module.

read the form into a spool → resolve → tokenize the prompt → admit and place → deliver. The file goes to the worker
behind its message, and again to another one as long as the client has seen nothing.
"""

import time
from functools import partial

from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import Engine, Route
from conch_gateway.answers.delivery import Delivery
from conch_gateway.answers.reply import JSON, Reply
from conch_gateway.errors.bad_request import missing
from conch_gateway.generation.cold_start import HeldCaller
from conch_gateway.http.exchange import Exchange
from conch_gateway.http.upload import FILE, read_form
from conch_gateway.http.upload_spool import SpoolSpace, UploadSpool, no_room
from conch_gateway.inference.intake import RequestIntake
from conch_gateway.inference.stages import Stages
from conch_gateway.inference.watchdog import RequestActivity
from conch_gateway.placement.claim import Claim
from conch_gateway.placement.dispatch import Dispatcher
from conch_gateway.placement.holds import BATCH_PART
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.speech.endpoints import SPEECH_PATHS, ResolvedSpeech, SpeechEndpoint
from conch_gateway.speech.job import SpeechJob
from conch_kit.http.asgi import Receive


class SpeechHandler:
    """Serves the endpoints of speech."""

    def __init__(
        self, intake: RequestIntake, tokenizers: TokenizerClient, dispatch: Dispatcher, space: SpoolSpace
    ) -> None:
        self._intake = intake
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self._space = space

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `SPEECH_PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = SPEECH_PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        reply.client.allow_body(self._intake.settings.upload_timeout_s)
        with UploadSpool(self._space) as spool:
            resolved = await self._read_and_resolve(endpoint, exchange, receive, spool)
            exchange.user = resolved.request.user
            if resolved.request.request_id is not None:
                exchange.rename(resolved.request.request_id)
            await self._answer(resolved, spool, exchange, reply)

    async def _read_and_resolve(
        self, endpoint: SpeechEndpoint, exchange: Exchange, receive: Receive, spool: UploadSpool
    ) -> ResolvedSpeech:
        limit = self._intake.settings.max_upload_bytes
        fields = await read_form(receive, exchange.headers, spool, max_file_bytes=limit)
        if fields is None:
            raise missing(FILE)
        return await self._intake.resolve(exchange, 0, partial(endpoint.resolve, fields, spool.size))

    async def _answer(self, resolved: ResolvedSpeech, spool: UploadSpool, exchange: Exchange, reply: Reply) -> None:
        comment = reply.keep_alive if resolved.stream else None
        routing = resolved.route.routing
        read_at = time.monotonic()
        deadline = read_at + routing.timeout_s
        with self._intake.span(exchange) as span:
            stages = self._intake.stages(exchange, span)
            async with self._intake.watchdog(reply.client, deadline, comment) as watchdog:
                job = await self._tokenize(resolved, exchange, stages)
                media_type = resolved.format.media_type.encode()
                delivery = Delivery(
                    exchange,
                    reply,
                    watchdog.activity,
                    self._intake.metrics.of(exchange.model),
                    inter_token_patience_s=routing.inter_token_timeout_s + self._intake.settings.worker_grace_s,
                    media_type=JSON if media_type == JSON[1] else (JSON[0], media_type),
                )
                stream = reply if resolved.stream else None
                priority = resolved.request.priority or 0
                settings = self._intake.settings
                caller = HeldCaller(exchange, read_at, deadline, settings, watchdog.activity, priority, stream)
                claim = caller.claim(1, prepared=0)
                self._check_room(resolved.route, claim)
                await self._run(job, claim, spool, stages, delivery, watchdog.activity, deadline)

    def _check_room(self, route: Route, claim: Claim) -> None:
        """Raise Unavailable for a batch that would wait for an engine and keep the room that urgent uploads need."""
        if not claim.wakes and self._dispatch.holds(route) and self._space.is_filled_to(BATCH_PART):
            raise no_room()

    async def _tokenize(self, resolved: ResolvedSpeech, exchange: Exchange, stages: Stages) -> SpeechJob:
        read = partial(SpeechJob.of, resolved, request_id=exchange.request_id, created=int(time.time()))
        if resolved.preparation is None:
            return read(None)
        with stages.tokenizing() as headers:
            return await self._tokenizers.post(PREPARE_PATH, resolved.preparation, headers, resolved.route, read)

    async def _run(
        self,
        job: SpeechJob,
        claim: Claim,
        spool: UploadSpool,
        stages: Stages,
        delivery: Delivery,
        activity: RequestActivity,
        deadline: float,
    ) -> None:
        """Have a worker do the job and deliver its answer, which must be complete by `deadline`."""
        route, stream = job.resolved.route, job.resolved.stream

        def head(engine: Engine) -> bytes:
            now = time.monotonic()
            if stream:
                activity.asked = now
                activity.patience_s = route.routing.first_token_timeout_s + self._intake.settings.worker_grace_s
            return job.head(engine, max(0.001, deadline - now))

        deliver = delivery.stream if stream else delivery.whole
        await self._dispatch.run(route, stages, claim, head, deliver, spool, failed=activity.owes_nothing)
