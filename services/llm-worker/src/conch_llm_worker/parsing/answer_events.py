"""What an answer consists of, in the order in which it was written. Named tuples: one or more are made per token."""

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


def append(events: list[Event], event: Event) -> None:
    """Add an event; text that continues the last one's becomes part of it."""
    if not events or type(events[-1]) is not type(event):
        events.append(event)
        return
    match event, events[-1]:
        case Content(text), Content(before):
            events[-1] = Content(before + text)
        case Reasoning(text), Reasoning(before):
            events[-1] = Reasoning(before + text)
        case CallArguments(call, text), CallArguments(same, before) if call == same:
            events[-1] = CallArguments(call, before + text)
        case _:
            events.append(event)
