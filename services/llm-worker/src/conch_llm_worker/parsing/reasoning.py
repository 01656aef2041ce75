"""Reads the thinking at the beginning of an answer.

The opening mark counts only there: a model that writes about the mark further on has not begun to think. Line breaks
around the marks belong to neither part.
"""

from conch_contracts.messages.answer_parsing import Thinking
from conch_contracts.thinking_marks import THINKING_MARKS
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer, text_until, word_ahead
from conch_llm_worker.text.partial_words import Words


def reasoning(tape: TextBuffer, thinking: Thinking) -> Steps[None]:
    """Read the thinking, if the answer begins with any, and the space behind it."""
    marks = THINKING_MARKS[thinking.parser]
    opening = yield from word_ahead(tape, marks.start)
    if not opening and not thinking.opened and not marks.implied:
        return
    tape.drop(opening)
    tape.thinking = True
    yield from _skip_space(tape)
    yield from text_until(tape, Words((marks.end,)))
    tape.forget_space()
    tape.thinking = False
    tape.forget_raw()
    yield from _skip_space(tape)


def _skip_space(tape: TextBuffer) -> Steps[None]:
    while True:
        tape.drop(len(tape.text) - len(tape.text.lstrip("\r\n")))
        if tape.text or tape.ended:
            return
        yield
