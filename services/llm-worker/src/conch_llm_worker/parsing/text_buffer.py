"""The text of one answer as it arrives, and the elementary steps of reading it.

A step is a generator that pauses while it needs more text. A call of a tool is read on trial: until it is complete the
buffer keeps its raw text, and `attempt` turns that into content when the text turns out to be no call.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
    joined,
)
from conch_llm_worker.parsing.json_texts import json_value
from conch_llm_worker.text.partial_words import Words

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""A step of reading, which pauses while more text is needed and returns what it has found."""

_NOTHING = Words(())
MAX_NAME_CHARS = 256
"""What is longer than this is no name, so that nothing is held back for long."""
MAX_SPACE_CHARS = 4096
"""White space of which more comes before a word that may come next: the word does not come."""


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
        self._space: list[str] = []
        """White space that waits, in pieces: an answer may hold a lot of it."""
        self._raw: list[str] = []
        self._arguments: list[str] | None = None
        self._begun = 0
        self._surplus = False

    def take_events(self) -> list[Event]:
        """Return the events found since the last time."""
        events, self._events = self._events, []
        return joined(events)

    def take(self, count: int) -> str:
        """Read so many characters that belong to a call or to a mark, and keep them in case it is no call."""
        taken, self.text = self.text[:count], self.text[count:]
        self._raw.append(taken)
        return taken

    def put_back(self, text: str) -> None:
        """Put back what was read last."""
        self._raw.append(self._raw.pop().removesuffix(text))
        self.text = text + self.text

    def drop(self, count: int) -> None:
        """Leave out so many characters for good."""
        self.text = self.text[count:]

    def show(self, count: int) -> None:
        """Read so many characters as content or thinking; white space waits until something follows it."""
        shown, self.text = self.text[:count], self.text[count:]
        visible = shown.rstrip() if shown[-1:].isspace() else shown
        if visible:
            self._emit_text("".join([*self._space, visible]) if self._space else visible)
            self._space = []
        if len(visible) < len(shown):
            self._space.append(shown[len(visible) :])

    def show_all(self) -> None:
        """Read all that is there as content, white space too."""
        self.show(len(self.text))
        self.show_space()

    def show_space(self) -> None:
        """Show the white space that has waited, since more text follows or the answer is over."""
        space, self._space = self._space, []
        self._emit_text("".join(space))

    def drop_space(self) -> None:
        """Leave out the white space that has waited."""
        self._space = []

    def begin_call(self, name: str, call_id: str | None = None) -> None:
        """Note that a call has begun, with the model's own id for it, if any; one call too many makes no events."""
        self._surplus = self.complete_calls > 0 and not self._several
        self._arguments, self._space = [], []
        if not self._surplus:
            self._events.append(CallBegin(self._begun, call_id or self._new_id(), name))

    def add_arguments(self, fragment: str) -> None:
        """Add a piece of the call's arguments."""
        assert self._arguments is not None
        self._arguments.append(fragment)
        if fragment and not self._surplus:
            self._events.append(CallArguments(self._begun, fragment))

    def end_call(self) -> None:
        """Note that the call is complete; raises NoCall when its arguments are no JSON object."""
        assert self._arguments is not None
        if not _is_object("".join(self._arguments)):
            raise NoCall
        self._arguments = None
        self._raw.clear()
        if not self._surplus:
            self._events.append(CallEnd(self._begun))
            self._begun += 1
            self.complete_calls += 1

    def reject_call(self) -> None:
        """Turn what was read as a call into content, since it is none; a call that the answer's limit cut stays one."""
        raw = "".join(self._raw)
        self._raw.clear()
        if self._arguments is None:
            self.text = raw + self.text
            self.show(len(raw))
            return
        self._arguments = None
        if not self._surplus:
            self.incomplete = self.ended and self.cut
            if not self.incomplete:
                self._events.append(CallBroken(self._begun, raw))
        self._begun += 1

    def drop_taken(self) -> None:
        """Leave out what was taken for good: it was a mark."""
        self._raw.clear()

    def _emit_text(self, text: str) -> None:
        if not text:
            return
        self._events.append(Reasoning(text) if self.thinking else Content(text))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json_value(text), dict)
    except ValueError:
        return False


def attempt(buffer: TextBuffer, call: Steps[None]) -> Steps[bool]:
    """Read a call; return whether it was one. What is none becomes content."""
    try:
        yield from call
    except NoCall:
        buffer.reject_call()
        return False
    return True


def text_until(buffer: TextBuffer, marks: Words) -> Steps[str | None]:
    """Show the text up to the first mark, and read the mark; return it, or None at the end of the answer."""
    while True:
        found = marks.first_in(buffer.text)
        if found is not None:
            at, mark = found
            buffer.show(at)
            buffer.take(len(mark))
            return mark
        if buffer.ended:
            buffer.show(len(buffer.text))
            return None
        buffer.show(marks.certain(buffer.text))
        yield


def rest(buffer: TextBuffer) -> Steps[None]:
    """Show the answer to its end."""
    yield from text_until(buffer, _NOTHING)


def next_visible(buffer: TextBuffer) -> Steps[str]:
    """Return the next character that is not white space, without reading anything; empty at the end."""
    while True:
        rest = buffer.text.lstrip()
        if rest or buffer.ended:
            return rest[:1]
        yield


def skip_space(buffer: TextBuffer) -> Steps[str]:
    """Read white space inside a call and return the next character; raises NoCall at the end."""
    character = yield from next_visible(buffer)
    if not character:
        raise NoCall
    buffer.take(len(buffer.text) - len(buffer.text.lstrip()))
    return character


def expect(buffer: TextBuffer, word: str) -> Steps[None]:
    """Read a word inside a call; raises NoCall when something else stands there."""
    while len(buffer.text) < len(word) and word.startswith(buffer.text) and not buffer.ended:
        yield
    if not buffer.text.startswith(word):
        raise NoCall
    buffer.take(len(word))


def word_ahead(buffer: TextBuffer, word: str) -> Steps[int]:
    """Return how far a word reaches that may come next, behind white space; 0 when something else does."""
    space = 0
    while True:
        rest = buffer.text[space:].lstrip()
        space = len(buffer.text) - len(rest)
        if space > MAX_SPACE_CHARS:
            return 0
        if rest.startswith(word):
            return space + len(word)
        if buffer.ended or not word.startswith(rest):
            return 0
        yield


def until(buffer: TextBuffer, mark: str, *, at_most: int = MAX_NAME_CHARS) -> Steps[str]:
    """Read up to a mark and the mark, and return what stands before it; raises NoCall when it is too far away."""
    while True:
        at = buffer.text.find(mark)
        if 0 <= at <= at_most:
            taken = buffer.take(at)
            buffer.take(len(mark))
            return taken
        if buffer.ended or at > at_most or len(buffer.text) > at_most + len(mark):
            raise NoCall
        yield


def until_any(buffer: TextBuffer, marks: Words, *, at_most: int = MAX_NAME_CHARS) -> Steps[tuple[str, str]]:
    """Read up to the first of some marks and the mark; return what stands before it, and which mark it is."""
    while True:
        found = marks.first_in(buffer.text)
        if found is not None and found[0] <= at_most:
            taken = buffer.take(found[0])
            return taken, buffer.take(len(found[1]))
        if buffer.ended or found is not None or marks.certain(buffer.text) > at_most:
            raise NoCall
        yield
