"""The text of one answer as it arrives, and the elementary steps of reading it.

A step is a generator that pauses while it needs more text. A call of a tool is read on trial: until it is complete the
tape remembers what it was made of, and `attempt` gives that back as content when the text turns out to be no call.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import orjson

from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
    append,
)
from conch_llm_worker.text.partial_words import Words

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""A step of reading, which pauses while more text is needed and returns what it has found."""

_NOTHING = Words(())
MAX_NAME_CHARS = 256
"""What is longer than this is no name, so that nothing is held back for long."""


class NoCall(Exception):
    """The text is no call of a tool."""


class TextBuffer:
    """The unread text of one answer, and what has been found in it."""

    def __init__(self, new_id: Callable[[], str], *, several: bool) -> None:
        self.text = ""
        """What has come and is not read."""
        self.ended = False
        """Whether no more text will come."""
        self.cut = False
        """Whether the answer was ended in the middle: by its limit, or by a stop string."""
        self.thinking = False
        self.complete_calls = 0
        self.incomplete = False
        """Whether the answer was cut inside a call."""
        self._new_id = new_id
        self._several = several
        self._events: list[Event] = []
        self._space = ""
        self._raw: list[str] = []
        self._arguments: list[str] | None = None
        self._begun = 0
        self._silent = False

    def found(self) -> list[Event]:
        """Return the events since the last time."""
        events, self._events = self._events, []
        return events

    def take(self, count: int) -> str:
        """Read so many characters that belong to a call or to a mark."""
        taken, self.text = self.text[:count], self.text[count:]
        self._raw.append(taken)
        return taken

    def unread(self, text: str) -> None:
        """Put back what was read last."""
        self._raw.append(self._raw.pop().removesuffix(text))
        self.text = text + self.text

    def drop(self, count: int) -> None:
        """Read so many characters that nobody wants to see."""
        self.text = self.text[count:]

    def show(self, count: int) -> None:
        """Read so many characters as content or thinking; white space waits until something follows it."""
        shown, self.text = self._space + self.text[:count], self.text[count:]
        if not shown[-1:].isspace():
            self._space = ""
            self._emit_text(shown)
            return
        visible = shown.rstrip()
        self._space = shown[len(visible) :]
        self._emit_text(visible)

    def show_all(self) -> None:
        """Read all that is there as content, white space too."""
        self.show(len(self.text))
        self.show_space()

    def show_space(self) -> None:
        """Show the white space that has waited, since more text follows or the answer is over."""
        space, self._space = self._space, ""
        self._emit_text(space)

    def forget_space(self) -> None:
        """Leave out the white space that has waited."""
        self._space = ""

    def begin_call(self, name: str, call_id: str | None = None) -> None:
        """Say that a call has begun, by an id that the model gave it, if any; one too many is read without a word."""
        self._silent = self.complete_calls > 0 and not self._several
        self._arguments, self._space = [], ""
        if not self._silent:
            self._events.append(CallBegin(self._begun, call_id or self._new_id(), name))

    def add_arguments(self, fragment: str) -> None:
        """Add a piece of the call's arguments."""
        assert self._arguments is not None
        self._arguments.append(fragment)
        if fragment and not self._silent:
            append(self._events, CallArguments(self._begun, fragment))

    def end_call(self) -> None:
        """Say that the call is complete; raises NoCall when its arguments are no JSON object."""
        assert self._arguments is not None
        if not _is_object("".join(self._arguments)):
            raise NoCall
        self._arguments = None
        self._raw.clear()
        if not self._silent:
            self._events.append(CallEnd(self._begun))
            self._begun += 1
            self.complete_calls += 1

    def give_back(self) -> None:
        """Show what was read as a call, since it is none; one that the answer's limit cut stays what it is."""
        raw = "".join(self._raw)
        self._raw.clear()
        if self._arguments is None:
            self.text = raw + self.text
            self.show(len(raw))
            return
        self._arguments = None
        if not self._silent:
            self.incomplete = self.ended and self.cut
            if not self.incomplete:
                self._events.append(CallBroken(self._begun, raw))
        self._begun += 1

    def forget_raw(self) -> None:
        """Leave out what was read: it was a mark."""
        self._raw.clear()

    def _emit_text(self, text: str) -> None:
        if not text:
            return
        append(self._events, Reasoning(text) if self.thinking else Content(text))


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def attempt(tape: TextBuffer, call: Steps[None]) -> Steps[bool]:
    """Read a call; return whether it was one. What is none becomes content."""
    try:
        yield from call
    except NoCall:
        tape.give_back()
        return False
    return True


def text_until(tape: TextBuffer, marks: Words) -> Steps[str | None]:
    """Show the text up to the first mark, and read the mark; return it, or None at the end of the answer."""
    while True:
        found = marks.first_in(tape.text)
        if found is not None:
            at, mark = found
            tape.show(at)
            tape.take(len(mark))
            return mark
        if tape.ended:
            tape.show(len(tape.text))
            return None
        tape.show(marks.certain(tape.text))
        yield


def rest(tape: TextBuffer) -> Steps[None]:
    """Show the answer to its end."""
    yield from text_until(tape, _NOTHING)


def next_visible(tape: TextBuffer) -> Steps[str]:
    """Return the next character that is not white space, without reading anything; empty at the end."""
    while True:
        rest = tape.text.lstrip()
        if rest or tape.ended:
            return rest[:1]
        yield


def skip_space(tape: TextBuffer) -> Steps[str]:
    """Read white space inside a call and return the next character; raises NoCall at the end."""
    character = yield from next_visible(tape)
    if not character:
        raise NoCall
    tape.take(len(tape.text) - len(tape.text.lstrip()))
    return character


def expect(tape: TextBuffer, word: str) -> Steps[None]:
    """Read a word inside a call; raises NoCall when something else stands there."""
    while len(tape.text) < len(word) and word.startswith(tape.text) and not tape.ended:
        yield
    if not tape.text.startswith(word):
        raise NoCall
    tape.take(len(word))


def word_ahead(tape: TextBuffer, word: str) -> Steps[int]:
    """Return how far a word reaches that may come next, behind white space; 0 when something else does."""
    while True:
        rest = tape.text.lstrip()
        if rest.startswith(word):
            return len(tape.text) - len(rest) + len(word)
        if tape.ended or not word.startswith(rest):
            return 0
        yield


def until(tape: TextBuffer, mark: str, *, at_most: int = MAX_NAME_CHARS) -> Steps[str]:
    """Read up to a mark and the mark, and return what stands before it; raises NoCall when it is too far away."""
    while True:
        at = tape.text.find(mark)
        if 0 <= at <= at_most:
            taken = tape.take(at)
            tape.take(len(mark))
            return taken
        if tape.ended or at > at_most or len(tape.text) > at_most + len(mark):
            raise NoCall
        yield


def until_any(tape: TextBuffer, marks: Words, *, at_most: int = MAX_NAME_CHARS) -> Steps[tuple[str, str]]:
    """Read up to the first of some marks and the mark; return what stands before it, and which mark it is."""
    while True:
        found = marks.first_in(tape.text)
        if found is not None and found[0] <= at_most:
            taken = tape.take(found[0])
            return taken, tape.take(len(found[1]))
        if tape.ended or found is not None or marks.certain(tape.text) > at_most:
            raise NoCall
        yield
