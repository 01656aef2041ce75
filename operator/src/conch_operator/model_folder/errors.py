"""What can go wrong while a model's folder is read or its chat template is compiled.

Exception
 ├ SourceError          a folder that cannot be served
 └ TemplateUnchecked    a chat template of which nothing is known yet
"""

from conch_contracts.conditions import Reason


class SourceError(Exception):
    """A folder that cannot be served; says the reason and what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TemplateUnchecked(Exception):
    """A chat template that could not be compiled just now; says what kept it. Another attempt may succeed."""
