"""What a gateway and a tokenizer's child say to each other in frames over a lane, and a service to its children.

A lane is a connection that begins as `POST LANE_PATH` and goes on in frames (`conch_kit.frames`) once it was answered
with 101. Requests are answered in the order in which they came; the payloads are the JSON messages of HTTP.
"""

from enum import IntEnum
from typing import Final

from conch_contracts.names import DETOKENIZE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH

MAX_LANE_REQUEST_BYTES: Final = 64 * 1024
"""A larger request goes by HTTP: it may take seconds, and would hold up all behind it."""


class Operation(IntEnum):
    """What a child is asked to do; the payload is the JSON message of that name, but for the two that load."""

    PREPARE = 1
    TOKENIZE = 2
    DETOKENIZE = 3
    LOAD = 4
    """The payload is a digest and the folder that holds its files; never on a lane."""
    PREPARE_ROWS = 5
    CHECK_GRAMMAR = 6
    """Never on a lane: grammars may end their child."""
    LOAD_FOR_GRAMMARS = 7
    """As LOAD, for a child that only checks grammars."""
    PING = 8
    """Nothing but a sign of life; never on a lane."""


class ReplyKind(IntEnum):
    """What a child sends."""

    READY = 64
    """Once to its service, when it has started; the payload is its process id."""
    DONE = 65
    """The JSON answer; empty after LOAD."""
    REFUSED = 66
    """The error's JSON as a client gets it: the request cannot be served as it is."""
    MISSING = 67
    """The digest that must be loaded before this request can be served."""
    ENCODING = 68
    """To its service only: rendering is over and a long text is being encoded, the clock starts again.

    A payload is the index of the request's picture that is being read instead.
    """
    UNREADABLE = 69
    """LOAD failed; the payload says why."""
    FAILED = 70
    """A fault of ours, logged by the child with its stack."""


LANE_OPERATIONS: Final = {
    PREPARE_PATH: Operation.PREPARE,
    TOKENIZE_PATH: Operation.TOKENIZE,
    DETOKENIZE_PATH: Operation.DETOKENIZE,
    PREPARE_ROWS_PATH: Operation.PREPARE_ROWS,
}
"""What may be asked on a lane, by the path that asks the same by HTTP."""
