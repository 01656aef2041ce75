"""What a command to Redis may raise: no answer at all, or an answer that is an error."""


class RegistryUnavailable(Exception):
    """Redis did not answer, or is known not to answer at this moment."""


class RegistryError(Exception):
    """Redis answered with an error; the message is its own."""
