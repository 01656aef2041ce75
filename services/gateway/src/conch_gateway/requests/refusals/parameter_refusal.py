"""What becomes of a parameter that an endpoint does not have."""

from typing import NamedTuple


class ParameterRefusal(NamedTuple):
    """How it is refused, and which of its values are not."""

    instead: str = ""
    """The rest of the sentence that refuses it; empty: there is nothing like it here."""
    harmless: tuple[object, ...] = ()
    """The values beside null that ask for nothing."""
