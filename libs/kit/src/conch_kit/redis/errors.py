"""What a command to Redis may raise: no answer at all, or an answer that is an error."""


class RegistryUnavailable(Exception):
    """Redis did not answer, or is known not to answer at this moment."""


class RegistryBusy(RegistryUnavailable):
    """No connection became free in time: this process has more to ask than it has connections; Redis may be sound."""


class RegistryError(Exception):
    """Redis answered with an error; the message is its own."""
