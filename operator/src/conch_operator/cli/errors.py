"""How a command fails: with sentences for its user and an exit status."""

from collections.abc import Sequence
from typing import ClassVar


class CommandError(Exception):
    """A command that cannot do what it was asked; `sentences` are printed one per line."""

    status: ClassVar[int] = 1
    """The exit status."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)


class UsageError(CommandError):
    """A command line that says too little or contradicts itself."""

    status: ClassVar[int] = 2
