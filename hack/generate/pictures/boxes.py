"""Boxes on a grid with arrows between them, and borders around those that belong together."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from generate.pictures.canvas import LINE, Area, Canvas, Tone

_MARGIN = 18.0


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Box(_Part):
    """One box; the first line of its text is bold."""

    id: str
    at: tuple[float, float]
    """Column and row of its centre."""
    size: tuple[float, float] = (1, 1)
    """Its width and height, as multiples of the usual."""
    text: str
    tone: Tone = Tone.OURS


class Zone(_Part):
    """A border around a part of the grid."""

    name: str
    at: tuple[float, float, float, float]
    """The columns and rows of its first and last corner, counted between the centres of boxes."""


class Arrow(_Part):
    """An arrow from box to box."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    text: str = ""
    dashed: bool = False
    both: bool = False
    via: tuple[tuple[float, float], ...] = ()
    """Points of the grid between."""
    shift: tuple[float, float] = (0, 0)
    """How far it is moved, in units of the picture, so that two arrows can lie beside each other."""


class Boxes(_Part):
    """A picture of boxes."""

    kind: Literal["boxes"]
    about: str
    cell: tuple[float, float] = (190, 110)
    box: tuple[float, float] = (150, 58)
    columns: float
    rows: float
    zones: tuple[Zone, ...] = ()
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()


def draw_boxes(picture: Boxes) -> str:
    """Return the SVG of a picture of boxes."""
    canvas = Canvas(
        picture.about, picture.columns * picture.cell[0] + 2 * _MARGIN, picture.rows * picture.cell[1] + 2 * _MARGIN
    )
    for zone in picture.zones:
        left, top = _point(picture, zone.at[0], zone.at[1])
        right, bottom = _point(picture, zone.at[2], zone.at[3])
        canvas.zone(Area(left, top, right - left, bottom - top), zone.name)
    areas = {box.id: _area(picture, box) for box in picture.boxes}
    for arrow in picture.arrows:
        _draw_arrow(canvas, picture, arrow, areas)
    for box in picture.boxes:
        canvas.box(areas[box.id], box.tone, box.text.strip().splitlines())
    return canvas.svg()


def _draw_arrow(canvas: Canvas, picture: Boxes, arrow: Arrow, areas: dict[str, Area]) -> None:
    start, end = areas[arrow.from_], areas[arrow.to]
    between = [_point(picture, x, y) for x, y in arrow.via]
    first = start.border_towards(*(between[0] if between else end.middle))
    last = end.border_towards(*(between[-1] if between else start.middle))
    across, down = arrow.shift
    points = [(x + across, y + down) for x, y in (first, *between, last)]
    canvas.arrow(points, arrow.text, dashed=arrow.dashed, both=arrow.both)


def _point(picture: Boxes, column: float, row: float) -> tuple[float, float]:
    """Return a point of the grid; column 0 and row 0 are the centre of the first cell."""
    return _MARGIN + (column + 0.5) * picture.cell[0], _MARGIN + (row + 0.5) * picture.cell[1]


def _area(picture: Boxes, box: Box) -> Area:
    x, y = _point(picture, *box.at)
    width = picture.box[0] * box.size[0]
    height = max(picture.box[1] * box.size[1], (box.text.strip().count("\n") + 1) * LINE + 14)
    return Area(x - width / 2, y - height / 2, width, height)
