"""From a worker's answer to the client: a whole body, or a stream relayed frame by frame."""

import time
from collections.abc import Callable
from typing import Protocol

from conch_contracts.headers import USAGE
from conch_contracts.messages.generation import Usage
from conch_gateway.answers.reply import JSON, Reply
from conch_gateway.answers.sse_frames import FrameRelay, FrameTooLong, ResponseRelay, error_event, parse_usage
from conch_gateway.http.exchange import Exchange, Outcome
from conch_gateway.inference.watchdog import RequestActivity
from conch_gateway.telemetry.metrics import ModelMetrics
from conch_gateway.upstream.port import AnswerLost, Header, UpstreamResponse, read_all
from conch_kit.errors import UpstreamError

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_USAGE = USAGE.encode()
_FAILED_EVENT = b"event: response.failed\n"


class AnswerSaver(Protocol):
    """Who gets an answer of the Responses API before the client hears that it is complete."""

    async def save(self, answer: bytes) -> bytes:
        """Return the answer as the client gets it."""
        ...


class Delivery:
    """Delivers the answer to one request."""

    __slots__ = (
        "_activity",
        "_clock",
        "_exchange",
        "_last",
        "_media_type",
        "_metrics",
        "_patience_s",
        "_reply",
        "_saver",
        "_shown",
    )

    def __init__(
        self,
        exchange: Exchange,
        reply: Reply,
        activity: RequestActivity,
        metrics: ModelMetrics,
        *,
        inter_token_patience_s: float,
        saver: AnswerSaver | None = None,
        media_type: Header = JSON,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = exchange
        self._reply = reply
        self._activity = activity
        self._metrics = metrics
        self._patience_s = inter_token_patience_s
        self._saver = saver
        self._media_type = media_type
        """Of a whole answer."""
        self._clock = clock
        self._last = b""
        """The frames that went to the client last."""
        self._shown = 0.0
        """When they came; a worker may send something that shows nothing."""

    def asked(self, prompt_tokens: int) -> None:
        """Note that an engine is asked about a prompt, which it works on whatever becomes of the answer."""
        self._exchange.prompt_tokens = prompt_tokens

    async def whole(self, answer: UpstreamResponse) -> None:
        """Send a complete answer; raises UpstreamError when it is not one."""
        body = await read_all(answer, limit=MAX_ANSWER_BYTES)
        if self._media_type is JSON and not body.startswith(b"{"):
            raise UpstreamError("The worker's answer is not a JSON object.")
        self._record(parse_usage(answer.headers.get(_USAGE, b"")), complete=True)
        if self._saver is not None:
            body = await self._saver.save(body)
        self._activity.sending = self._clock()
        await self._reply.whole(200, body, (self._media_type,))

    async def stream(self, answer: UpstreamResponse) -> None:
        """Relay a stream; raises UpstreamError when it breaks, so that an error frame ends it."""
        relay = (
            FrameRelay(last=self._reply.protocol.last_frame) if self._saver is None else ResponseRelay(MAX_ANSWER_BYTES)
        )
        # The status comes with the engine's first message, though that may show nothing yet.
        self._activity.asked, self._activity.patience_s = self._clock(), self._patience_s
        try:
            await self._relay(answer, relay)
        except AnswerLost as exc:
            raise UpstreamError("The worker broke down.", code="upstream_lost") from exc
        except FrameTooLong as exc:
            raise UpstreamError(str(exc), code="upstream_lost") from exc
        finally:
            self._record(relay.usage(), complete=relay.done)
            if self._saver is not None:
                last = self._last  # and not this object: it holds the reply
                self._reply.error_frame = lambda error, _: error_event(error, last)
        if self._saver is not None:
            await self._save(self._saver, relay)
        self._activity.sending = self._clock()  # the worker owes nothing any more; the client may still have to read
        if relay.done:
            await self._reply.end_stream()
        elif self._reply.protocol.error_mark in self._last:
            self._exchange.outcome = Outcome.BROKEN
            await self._reply.end_stream()
        else:
            raise UpstreamError("The worker ended its answer too early.", code="upstream_lost")

    async def _relay(self, answer: UpstreamResponse, relay: FrameRelay) -> None:
        """Relay until the worker's end.

        The first frames, and those that find the client's buffer full, take the slow way through a wait; all others
        go straight from one socket's callback to the other socket.
        """
        activity, clock, sink = self._activity, self._clock, self._sink(relay)
        observe_gap = self._metrics.gap.observe
        while chunk := await answer.read():
            now = clock()
            activity.asked = now
            frames = relay.feed(chunk)
            del chunk  # a client that never reads shall cost one piece, not two
            if not frames:
                continue
            if self._last:
                observe_gap(now - self._shown)
            else:
                self._metrics.first_token.observe(now - self._exchange.started)
                await self._reply.begin_stream()
            self._last, self._shown = frames, now
            activity.sending = now
            await self._reply.chunk(frames)
            activity.sending = 0.0
            activity.sent = now
            await answer.push(sink)

    async def _save(self, saver: AnswerSaver, relay: FrameRelay) -> None:
        """Have the answer saved, then let the last event go."""
        tail, activity = relay.tail(), self._activity
        if tail is None:
            return
        activity.owes_nothing()
        frames = tail.with_answer(await saver.save(tail.answer))
        await self._reply.begin_stream()
        activity.sending = self._clock()
        await self._reply.chunk(frames)
        activity.sending = 0.0
        if _FAILED_EVENT in frames:
            self._exchange.outcome = Outcome.BROKEN
        relay.done = True

    def _sink(self, relay: FrameRelay) -> Callable[[bytes], bool]:
        """Return what takes a piece off the worker's socket; one call of it is what an event costs."""
        activity, clock, feed, push = self._activity, self._clock, relay.feed, self._reply.client.push
        observe_gap = self._metrics.gap.observe

        def take(chunk: bytes) -> bool:
            if not push(b"") or relay.overlong(chunk):
                return False
            now = clock()
            activity.asked = now
            frames = feed(chunk)
            if frames:
                observe_gap(now - self._shown)
                self._last = frames
                self._shown = now
                activity.sent = now
                push(frames)
            return True

        return take

    def _record(self, usage: Usage | None, *, complete: bool) -> None:
        if usage is None:
            self._metrics.missing_usage.inc(complete)
        else:
            self._exchange.prompt_tokens = usage.prompt_tokens
            self._exchange.completion_tokens = usage.completion_tokens
            self._exchange.audio_s = usage.audio_s
