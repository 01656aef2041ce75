"""What an API that is served by way of chat calls chat's parameters: errors name those that the client sent; pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from conch_kit.errors import ServiceError

_OTHER_PARAMETER = re.compile(r"(?<!found )(?<!the name )'([a-z]+_[a-z_]+(?:\.[\w.-]+)?)'")
"""A parameter that a message names beside the one that is at fault. Short names may be words of the client's own."""


@dataclass(frozen=True, slots=True)
class ChatNames:
    """The names of one API."""

    replacements: Sequence[tuple[re.Pattern[str], str]]
    """Applied to a path of chat one after the other."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """Of one request: what certain paths of chat are called, whatever the replacements say."""

    def of(self, path: str) -> str:
        """Return what a parameter of chat is called."""
        if path in self.exact:
            return self.exact[path]
        for pattern, replacement in self.replacements:
            path = pattern.sub(replacement, path)
        return path

    def with_exact(self, exact: Mapping[str, str]) -> "ChatNames":
        """Return the names of a request in which certain paths have names of their own."""
        return replace(self, exact=exact) if exact else self

    @contextmanager
    def used(self) -> Iterator[None]:
        """Name the parameters of errors as this API does."""
        try:
            yield
        except ServiceError as error:
            chats = error.param or ""
            error.param = error.param and self.of(chats)
            said = error.message.replace(f"'{chats}'", f"'{error.param}'")
            error.message = _OTHER_PARAMETER.sub(lambda found: f"'{self.of(found[1])}'", said)
            raise


NO_OTHER_NAMES = ChatNames(())
"""Those of chat itself."""
