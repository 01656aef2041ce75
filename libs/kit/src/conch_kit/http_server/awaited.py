"""What a connection can wait for."""

from enum import Enum, auto


class Awaited(Enum):
    """What a connection waits for, until its `due`."""

    HEAD = auto()
    BODY = auto()
    REQUEST = auto()
    """The next one, on a kept connection."""
    END = auto()
    """The end of what a caller still sends that was refused."""
    NOTHING = auto()
