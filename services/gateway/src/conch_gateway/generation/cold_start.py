"""What a request brings to the queue of its model: how much it asks for, and how it is held while an engine starts.

Of a stream the client hears that an engine starts; a plain request ends before proxies cut it. What nobody waits for,
such as an answer in the background, is held as long as it may take.
"""

import math
import time
from dataclasses import dataclass
from functools import partial

from conch_contracts.headers import COLD_START
from conch_gateway.answers.reply import Reply
from conch_gateway.answers.sse_frames import FRAME_END
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import RequestActivity
from conch_gateway.placement.claim import Claim, may_wake
from conch_gateway.placement.holds import Hold
from conch_gateway.settings import GatewaySettings

UNKNOWN = b"unknown"


@dataclass(slots=True)
class HeldCaller:
    """Who waits for an answer, as far as a hold concerns it."""

    exchange: Exchange
    read_at: float
    """When the request had been read, on the monotonic clock: from then on a proxy waits for the answer."""
    deadline: float
    """When the answer must be complete, on the monotonic clock."""
    settings: GatewaySettings
    activity: RequestActivity
    priority: int
    stream: Reply | None = None
    """Where the client hears that it waits, if it reads a stream."""
    unheard: bool = False
    """Whether nobody waits: the answer is made in the background."""

    def claim(self, sequences: int, *, prepared: int) -> Claim:
        """Return what the request claims of an engine.

        `prepared` bytes are ready for the worker: pictures may be a hundred times as large as the files in the body.
        """
        size = self.exchange.body_bytes + prepared
        return Claim(sequences, self.priority, size, self.exchange.max_wait_s, self._hold)

    def _hold(self) -> Hold:
        end, stream = self.deadline, self.stream
        if stream is None and not self.unheard:
            end = min(end, self.read_at + self.settings.hold_s)
        if self.exchange.max_wait_s is not None:
            end = min(end, self.read_at + self.exchange.max_wait_s)
        return Hold(
            patience_s=end - time.monotonic(),
            ended=self._ended,
            tell=None if stream is None else partial(self._tell, stream),
            first_word_s=self.settings.hold_status_s,
            next_word_s=self.settings.hold_comment_s,
        )

    async def _tell(self, stream: Reply, left_s: float | None) -> None:
        activity, wakes = self.activity, may_wake(self.priority)
        if not stream.begun:
            estimate = UNKNOWN if left_s is None or not wakes else b"%d" % math.ceil(left_s)
            self.exchange.reply_headers.append((COLD_START.encode(), estimate))
        await stream.begin_stream()
        activity.sending = time.monotonic()
        await stream.chunk(comment(left_s, wakes=wakes))
        activity.sending = 0.0
        activity.sent = time.monotonic()

    def _ended(self, seconds: float) -> None:
        self.exchange.held_s = (self.exchange.held_s or 0.0) + seconds


def comment(left_s: float | None, *, wakes: bool = True) -> bytes:
    """Return the comment of a stream whose engine starts, or of a batch for which none is started."""
    if not wakes:
        return b": no engine runs, and none is started for a request of this priority" + FRAME_END
    if left_s is None:
        return b": an engine starts" + FRAME_END
    if left_s <= 0:
        return b": an engine starts, and should be ready by now" + FRAME_END
    return b": an engine starts, ready in about %d s" % math.ceil(left_s) + FRAME_END
