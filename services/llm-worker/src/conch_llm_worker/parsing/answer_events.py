"""What an answer consists of, in the order in which it was written. Named tuples: one or more are made per token."""

from itertools import groupby
from typing import NamedTuple, TypeAlias


class Content(NamedTuple):
    """Text for the reader."""

    text: str


class Reasoning(NamedTuple):
    """A piece of the model's thinking."""

    text: str


class CallBegin(NamedTuple):
    """A call of a tool, from which on its arguments come."""

    call: int
    """Counts the calls of one choice from 0."""
    id: str
    name: str


class CallArguments(NamedTuple):
    """A piece of a call's arguments, which together are a JSON object."""

    call: int
    text: str


class CallEnd(NamedTuple):
    """The call is complete, and its arguments are a JSON object."""

    call: int


class CallBroken(NamedTuple):
    """The call that had begun is none: what it consisted of is text."""

    call: int
    raw: str
    """All that the model wrote of it, marks included."""


Event: TypeAlias = Content | Reasoning | CallBegin | CallArguments | CallEnd | CallBroken


Text: TypeAlias = Content | Reasoning | CallArguments
"""What comes in pieces, and reads the same however it is cut."""


def joined(events: list[Event]) -> list[Event]:
    """Return the same events, those that continue each other's text as one."""
    if len(events) < 2:
        return events
    found: list[Event] = []
    for _, group in groupby(events, _continued):
        run = list(group)
        first = run[0]
        if isinstance(first, Text):
            found.append(first._replace(text="".join([event.text for event in run if isinstance(event, Text)])))
        else:
            found += run
    return found


def _continued(event: Event) -> tuple[type[Event], int | None]:
    """Return what two events have in common of which the second continues the first one's text."""
    return type(event), event.call if isinstance(event, CallArguments) else None
