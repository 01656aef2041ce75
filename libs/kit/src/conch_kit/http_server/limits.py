"""How long a caller may take, and how much of a request's head is read."""

from dataclasses import dataclass

MAX_HEADERS = 128
LINGER_S = 2.0
"""How long a connection stays half open behind an answer that came before the end of its request, without a byte."""
LONGEST_LINGER_S = 30.0
"""How long it stays so while bytes come, as nginx's `lingering_time`: a reset would take the answer from its caller."""
LINGER_BYTES = 64 * 1024 * 1024
"""What of that request is read meanwhile."""
HIGH_WATER_BYTES = 64 * 1024
"""What waits of a body for the application before the caller is read no further."""
WORK_A_TURN = 1024
"""Pieces of work, of about 2 us each, that all connections of a server do for bodies in one turn of the loop."""
PAGE_BYTES = 4096
"""What the parser gets at once of all but a body whose length is known; and what is read for one piece of work."""
FRAMING_BYTES = 64 * 1024
"""How much more than the body may come with it: sizes and extensions of chunks, and trailers."""
EMPTY_LINES_BYTES = 16
"""What a caller may send before a request line; one empty line is to be passed over (RFC 9112, section 2.2)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The bounds of one server's connections."""

    head_s: float = 10.0
    """For a whole head, and how long a new connection may be silent."""
    head_bytes: int = 64 * 1024
    body_s: float = 30.0
    """For a whole body; of one that the application allows more time, for some of it."""
    idle_s: float = 75.0
    """How long a kept connection may be silent; longer than Conch's own clients keep one."""
    unread_s: float = 30.0
    """How long the end of an answer may wait for a caller that reads nothing of it."""


DEFAULT_LIMITS = ConnectionLimits()
