"""Reads the thinking at the beginning of an answer.

The opening mark counts only there: a model that writes about the mark further on has not begun to think. Line breaks
around the marks belong to neither part.
"""

from conch_contracts.messages.answer_parsing import Thinking
from conch_contracts.thinking_marks import THINKING_MARKS
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer, text_until, word_ahead
from conch_llm_worker.text.partial_words import Words


def reasoning(buffer: TextBuffer, thinking: Thinking) -> Steps[None]:
    """Read the thinking, if the answer begins with any, and the space behind it."""
    marks = THINKING_MARKS[thinking.parser]
    opening = yield from word_ahead(buffer, marks.start)
    if not opening and not thinking.opened and not marks.implied:
        return
    buffer.drop(opening)
    buffer.thinking = True
    yield from _skip_space(buffer)
    yield from text_until(buffer, Words((marks.end,)))
    buffer.drop_space()
    buffer.thinking = False
    buffer.drop_taken()
    yield from _skip_space(buffer)


def _skip_space(buffer: TextBuffer) -> Steps[None]:
    while True:
        buffer.drop(len(buffer.text) - len(buffer.text.lstrip("\r\n")))
        if buffer.text or buffer.ended:
            return
        yield
