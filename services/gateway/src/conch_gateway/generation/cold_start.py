"""What a request brings to the queue of its model: how much it asks for, and how it is held while an engine starts.

Of a stream the client hears that an engine starts; a plain request ends before proxies cut it. What nobody waits for,
such as an answer in the background, is held as long as it may take.
"""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conch_contracts.headers import COLD_START
from conch_gateway.answers.reply import Reply
from conch_gateway.answers.sse_frames import FRAME_END
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import RequestActivity
from conch_gateway.placement.holds import Hold
from conch_gateway.placement.model_queue import Claim, may_wake
from conch_gateway.settings import GatewaySettings

UNKNOWN = b"unknown"


@dataclass(slots=True)
class HeldCaller:
    """Who waits for an answer, as far as a hold concerns it."""

    exchange: Exchange
    deadline: float
    """When the answer must be complete, on the monotonic clock."""
    settings: GatewaySettings
    unheard: bool = False
    """Whether nobody waits: the answer is made in the background."""

    def claim(
        self, sequences: int, priority: int, reply: Reply | None = None, *, at: RequestActivity, prepared: int
    ) -> Claim:
        """Return what the request claims of an engine; `reply` is of one that streams.

        `prepared` bytes are ready for the worker: pictures may be a hundred times as large as the files in the body.
        """
        size = self.exchange.body_bytes + prepared
        wakes = may_wake(priority)
        return Claim(sequences, priority, size, self.exchange.max_wait_s, lambda: self._hold(reply, at, wakes=wakes))

    def _hold(self, reply: Reply | None, activity: RequestActivity, *, wakes: bool) -> Hold:
        patience_s = self.deadline - time.monotonic()
        if reply is None and not self.unheard:
            patience_s = min(patience_s, self.settings.hold_s)
        if self.exchange.max_wait_s is not None:
            patience_s = min(patience_s, self.exchange.max_wait_s)
        tell = None if reply is None else _teller(self.exchange, reply, activity, wakes=wakes)
        return Hold(
            patience_s=patience_s,
            ended=self._ended,
            tell=tell,
            first_word_s=self.settings.hold_status_s,
            next_word_s=self.settings.hold_comment_s,
        )

    def _ended(self, seconds: float) -> None:
        self.exchange.held_s = seconds


def comment(left_s: float | None, *, wakes: bool = True) -> bytes:
    """Return the comment of a stream whose engine starts, or of a batch for which none is started."""
    if not wakes:
        return b": no engine runs, and none is started for a request of this priority" + FRAME_END
    if left_s is None:
        return b": an engine starts" + FRAME_END
    if left_s <= 0:
        return b": an engine starts, and should be ready by now" + FRAME_END
    return b": an engine starts, ready in about %d s" % math.ceil(left_s) + FRAME_END


def _teller(
    exchange: Exchange, reply: Reply, activity: RequestActivity, *, wakes: bool
) -> Callable[[float | None], Awaitable[None]]:
    async def tell(left_s: float | None) -> None:
        if not reply.begun:
            estimate = UNKNOWN if left_s is None or not wakes else b"%d" % math.ceil(left_s)
            exchange.reply_headers.append((COLD_START.encode(), estimate))
        await reply.begin_stream()
        activity.sending = time.monotonic()
        await reply.chunk(comment(left_s, wakes=wakes))
        activity.sending = 0.0
        activity.sent = time.monotonic()

    return tell
