"""What a client may say about the chat template: a program of its own only where the operator of the gateway allows it.

A template runs in the tokenizer's sandbox, in a child that is killed when it takes too long; a variable reaches the
template only under a name that is allowed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from conch_kit.errors import InvalidRequest

TEMPLATE_VARIABLES = (
    "clear_thinking",
    "date_string",
    "enable_thinking",
    "options",
    "preserve_thinking",
    "reasoning_effort",
    "thinking",
    "thinking_budget",
    "thinking_mode",
)
"""Variables that the templates of well-known models read."""


class Rendered(Protocol):
    """A request whose messages are rendered."""

    @property
    def chat_template(self) -> str | None:
        """Return the client's own template."""
        ...

    @property
    def chat_template_kwargs(self) -> Mapping[str, Any] | None:
        """Return its variables."""
        ...


@dataclass(frozen=True, slots=True)
class TemplatePolicy:
    """What clients may set."""

    own_template: bool = False
    variables: frozenset[str] = frozenset(TEMPLATE_VARIABLES)

    def check(self, request: Rendered) -> None:
        """Raise InvalidRequest for a template or a variable that is not allowed."""
        if request.chat_template is not None and not self.own_template:
            raise InvalidRequest(
                "This server does not allow a 'chat_template' in requests.",
                param="chat_template",
                code="unsupported_parameter",
            )
        for name in request.chat_template_kwargs or ():
            if name not in self.variables:
                raise InvalidRequest(
                    f"'chat_template_kwargs' may hold {', '.join(sorted(self.variables))}; found {name[:64]!r}.",
                    param="chat_template_kwargs",
                    code="invalid_value",
                )


DEFAULT_POLICY = TemplatePolicy()
"""No templates in requests, and the well-known variables."""
