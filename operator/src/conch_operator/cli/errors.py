"""How a command fails: with sentences for its user and an exit status."""

from collections.abc import Sequence


class CommandError(Exception):
    """A command that cannot do what it was asked; `sentences` are printed one per line, exit status 1."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)
