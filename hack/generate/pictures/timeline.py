"""What goes on in which order: a row for each part, with spans, and marks across all rows."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from generate.pictures.canvas import Area, Canvas, Tone

_MARGIN, _ROW, _BAR, _MARKS = 18.0, 52.0, 34.0, 42.0


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Span(_Part):
    """Something that lasts."""

    at: tuple[float, float]
    """Where it begins and ends, in hundredths of the width."""
    text: str
    tone: Tone = Tone.OURS


class Row(_Part):
    """One part, and what it does."""

    name: str
    spans: tuple[Span, ...]


class Mark(_Part):
    """A moment that concerns all rows."""

    at: float
    text: str


class Timeline(_Part):
    """A picture of what lasts."""

    kind: Literal["timeline"]
    about: str
    width: float = 760
    names: float = 150
    marks: tuple[Mark, ...] = ()
    rows: tuple[Row, ...]


def draw_timeline(picture: Timeline) -> str:
    """Return the SVG of a timeline."""
    left, top = _MARGIN + picture.names, _MARGIN + (_MARKS if picture.marks else 0)
    bottom = top + len(picture.rows) * _ROW
    canvas = Canvas(picture.about, left + picture.width + _MARGIN, bottom + _MARGIN)

    def x(at: float) -> float:
        return left + at / 100 * picture.width

    for mark in picture.marks:
        canvas.line([(x(mark.at), top - 5), (x(mark.at), bottom)], dashed=True)
        for number, line in enumerate(reversed(mark.text.split("|"))):
            canvas.text(x(mark.at), top - 16 - number * 14, line)
    for number, row in enumerate(picture.rows):
        middle = top + (number + 0.5) * _ROW
        canvas.text(_MARGIN, middle, row.name, anchor="start", bold=True)
        for span in row.spans:
            start, end = map(x, span.at)
            canvas.box(Area(start, middle - _BAR / 2, end - start, _BAR), span.tone, round_by=4)
            lines = span.text.split("|")
            for place, words in enumerate(lines):
                canvas.text((start + end) / 2, middle + (place - (len(lines) - 1) / 2) * 14, words)
    return canvas.svg()
