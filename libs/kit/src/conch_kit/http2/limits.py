"""What a server may make this client do. An honest one, a tritonserver with its keepalive pings, comes near none of it.

Engines may be other people's, and one event loop serves the streams of all. Where nghttp2 has the bound, the number is
its default (lib/nghttp2_session.h and nghttp2.h, 1.65).
"""

from collections.abc import Callable

from conch_kit.http2.errors import ProtocolViolation
from conch_kit.http2.frames import ErrorCode

FRAMES_A_TURN = 256
"""Frames of one connection that are handled before others have their turn: about a millisecond of messages.

A field of a header block and an entry of settings count as one more each; the largest block holds the loop for 5 ms.
"""
MAX_CONTINUATIONS = 8
"""Frames that a header block may go on for: NGHTTP2_DEFAULT_MAX_CONTINUATIONS. The longest block taken needs four."""
MAX_SETTINGS = 32
"""Entries of one SETTINGS frame: NGHTTP2_DEFAULT_MAX_SETTINGS. RFC 9113 knows six."""
MAX_HELD_ANSWERS = 1000
"""Answers to pings, settings and data that wait for a peer which does not read: NGHTTP2_DEFAULT_MAX_OBQ_FLOOD_ITEM."""
IDLE_FRAMES = 1000
"""Frames that bring no stream further, at once: NGHTTP2_DEFAULT_STREAM_RESET_BURST, which bounds resets there.

gRPC's own server pings to measure the way (bdp_estimator.cc): ten times a second at first, a few times faster while its
estimate grows, then ever more seldom; when it has changed, a SETTINGS frame tells.
"""
IDLE_FRAMES_A_SECOND = 33
"""What of them is allowed again each second: NGHTTP2_DEFAULT_STREAM_RESET_RATE."""
LATE_FRAMES = 16
"""What of them each stream that this side ends allows: its head and its trailers may be under way."""


class IdleFrames:
    """Counts one connection's frames that bring no stream further.

    They are pings, settings, empty data, unknown ones, and header blocks for streams that are over.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._left = float(IDLE_FRAMES)

    def add(self, count: int = 1) -> None:
        """Count one, or what it takes as so many; raise ProtocolViolation when there were too many."""
        now = self._clock()
        self._left = min(IDLE_FRAMES, self._left + (now - self._since) * IDLE_FRAMES_A_SECOND)
        self._since = now
        if self._left < count:
            raise ProtocolViolation("It sends too many frames without content.", ErrorCode.ENHANCE_YOUR_CALM)
        self._left -= count

    def allow(self, count: int) -> None:
        """Allow so many more, though never more than at first."""
        self._left += count
