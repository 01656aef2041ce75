"""Reads one answer: text goes in as it comes, and what it consists of comes out."""

from collections.abc import Callable, Sequence

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.thinking_marks import THINKING_MARKS
from conch_llm_worker.parsing.answer_events import Content, Event, Reasoning
from conch_llm_worker.parsing.reasoning import reasoning
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer
from conch_llm_worker.parsing.tool_calls.parsers import PARSERS, SPECIAL_MARKS

_PIECE = 4096
"""Characters read at a time: each step copies what is unread, so the time would grow with the square of a long text."""


class AnswerReader:
    """Takes one answer apart."""

    def __init__(
        self, parsing: Parsing, new_id: Callable[[], str], on_reasoning: Callable[[str], object] | None = None
    ) -> None:
        """Begin an answer; `on_reasoning` is called with each piece of the thinking, shown or not."""
        calls, thinking = parsing.calls, parsing.thinking
        self.plain = False
        """Whether all that follows is content, so that nothing needs to be read any more."""
        self.thinking_over = parsing.thinking is None
        """Whether no text that follows is thinking."""
        self._on_reasoning = on_reasoning
        self._demanded = calls is not None and calls.demanded
        self._hidden = thinking is not None and not thinking.show
        self._buffer = TextBuffer(new_id, several=calls is None or calls.several)
        self._steps: Steps[None] | None = self._read(parsing)
        self._go_on()

    @property
    def thinking(self) -> bool:
        """Whether the text so far ends inside the thinking."""
        return self._buffer.thinking

    @property
    def calls(self) -> int:
        """How many complete calls there are."""
        return self._buffer.complete_calls

    @property
    def incomplete(self) -> bool:
        """Whether the answer was cut inside a call."""
        return self._buffer.incomplete

    def feed(self, text: str) -> Sequence[Event]:
        """Take the next piece of text and return what is certain now."""
        for at in range(0, len(text), _PIECE):
            if self.plain:
                self._buffer.text = text[at:]
                self._buffer.show_all()
                break
            self._buffer.text += text[at : at + _PIECE]
            self._go_on()
        return self._found()

    def finish(self, *, cut: bool) -> Sequence[Event]:
        """Return what was still held back; `cut` says that a limit or a stop string has ended the answer."""
        self._buffer.ended, self._buffer.cut = True, cut
        self._go_on()
        if not self.calls:
            self._buffer.show_space()
        found = self._found()
        if cut and self._demanded:
            # What is left is the beginning of a call that was cut, and no text for anybody.
            return [event for event in found if not isinstance(event, Content)]
        return found

    def _read(self, parsing: Parsing) -> Steps[None]:
        if parsing.thinking is not None:
            yield from reasoning(self._buffer, parsing.thinking)
            self.thinking_over = True
        if parsing.calls is None:
            self.plain = True
            self._buffer.show_all()
        else:
            yield from PARSERS[parsing.calls.parser](self._buffer, parsing.calls)

    def _go_on(self) -> None:
        if self._steps is not None and next(self._steps, self) is self:
            self._steps = None

    def _found(self) -> Sequence[Event]:
        events = self._buffer.take_events()
        if self._on_reasoning is not None:
            for event in events:
                if isinstance(event, Reasoning):
                    self._on_reasoning(event.text)
        if self._hidden and events:
            return [event for event in events if not isinstance(event, Reasoning)]
        return events


def marks_of(parsing: Parsing) -> frozenset[str]:
    """Return the tokens that must be part of the text even where special tokens are left out of it."""
    marks: frozenset[str] = frozenset()
    if parsing.thinking is not None:
        marks |= set(THINKING_MARKS[parsing.thinking.parser][:2])
    if parsing.calls is not None:
        marks |= SPECIAL_MARKS.get(parsing.calls.parser, frozenset())
    return marks
