"""Who sends what to whom, one line below the other."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from generate.pictures.canvas import LINE, Area, Canvas, Tone

_MARGIN, _HEADER, _STEP = 18.0, 34.0, 38.0
_WIDEST = 130.0


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Lane(_Part):
    """Somebody who takes part."""

    name: str
    tone: Tone = Tone.OURS


class Message(_Part):
    """One message, or with `over` alone what somebody does."""

    from_: Annotated[str | None, Field(alias="from")] = None
    to: str | None = None
    over: str | None = None
    text: str
    reply: bool = False


class Sequence(_Part):
    """A picture of messages."""

    kind: Literal["sequence"]
    about: str
    apart: float = 190
    lanes: tuple[Lane, ...]
    steps: tuple[Message, ...]


def draw_sequence(picture: Sequence) -> str:
    """Return the SVG of a picture of messages."""
    heights = [_height(step) for step in picture.steps]
    bottom = _MARGIN + _HEADER + 12 + sum(heights)
    width = 2 * _MARGIN + _WIDEST + (len(picture.lanes) - 1) * picture.apart
    canvas = Canvas(picture.about, width, bottom + _MARGIN)
    centres = {lane.name: _MARGIN + _WIDEST / 2 + number * picture.apart for number, lane in enumerate(picture.lanes)}
    for lane in picture.lanes:
        x = centres[lane.name]
        canvas.line([(x, _MARGIN + _HEADER), (x, bottom)], dashed=True)
        canvas.box(Area(x - _WIDEST / 2, _MARGIN, _WIDEST, _HEADER), lane.tone, [lane.name])
    top = _MARGIN + _HEADER + 12
    for step, height in zip(picture.steps, heights, strict=True):
        _draw_step(canvas, step, centres, top, height)
        top += height
    return canvas.svg()


def _draw_step(canvas: Canvas, step: Message, centres: dict[str, float], top: float, height: float) -> None:
    lines = step.text.strip().splitlines()
    if step.over is not None:
        width = max(max(map(len, lines)) * 6.9 + 16, 80)
        area = Area(centres[step.over] - width / 2, top + 5, width, height - 10)
        canvas.box(area, Tone.PALE, ["", *lines[1:]] if len(lines) > 1 else [])
        x, y = area.middle
        canvas.text(x, y - (len(lines) - 1) * LINE / 2, lines[0])
        return
    assert step.from_ is not None
    assert step.to is not None
    start, end = centres[step.from_], centres[step.to]
    y = top + height - 9
    canvas.arrow([(start, y), (end, y)], dashed=step.reply)
    for number, line in enumerate(lines):
        canvas.label((start + end) / 2, y - 11 - (len(lines) - 1 - number) * LINE, line)


def _height(step: Message) -> float:
    return _STEP + step.text.strip().count("\n") * LINE
