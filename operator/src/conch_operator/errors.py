"""What can go wrong while a model's folder is read.

Exception
 └ SourceError    a folder that cannot be served
"""

from conch_contracts.conditions import Reason


class SourceError(Exception):
    """A folder that cannot be served; says the reason and what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
