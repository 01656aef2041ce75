"""What an API that is served by way of chat calls chat's parameters: errors name those that the client sent; pure."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from conch_kit.errors import InvalidRequest

_OTHER_PARAMETER = re.compile(r"(?<!found )(?<!the name )'([a-z]+_[a-z_]+(?:\.[\w.-]+)?)'")
"""A parameter that a message names beside the one that is at fault. Short names may be words of the client's own."""


@dataclass(frozen=True, slots=True)
class ChatNames:
    """The names of one API."""

    replacements: Sequence[tuple[re.Pattern[str], str]]
    """Applied to a path of chat one after the other."""

    def of(self, path: str) -> str:
        """Return what a parameter of chat is called."""
        for pattern, replacement in self.replacements:
            path = pattern.sub(replacement, path)
        return path

    @contextmanager
    def used(self) -> Iterator[None]:
        """Name the parameters of an InvalidRequest as this API does."""
        try:
            yield
        except InvalidRequest as error:
            chats = error.param or ""
            error.param = error.param and self.of(chats)
            said = error.message.replace(f"'{chats}'", f"'{error.param}'")
            error.message = _OTHER_PARAMETER.sub(lambda found: f"'{self.of(found[1])}'", said)
            raise
