"""Reads the description of a picture and draws it."""

from pathlib import Path
from typing import Annotated, assert_never

import yaml
from pydantic import Field, TypeAdapter

from generate.pictures.boxes import Boxes, draw_boxes
from generate.pictures.sequence import Sequence, draw_sequence
from generate.pictures.timeline import Timeline, draw_timeline

_DESCRIPTION: TypeAdapter[Boxes | Sequence | Timeline] = TypeAdapter(
    Annotated[Boxes | Sequence | Timeline, Field(discriminator="kind")]
)


def draw(description: Path) -> str:
    """Return the SVG that a file of docs/pictures describes."""
    picture = _DESCRIPTION.validate_python(yaml.safe_load(description.read_text(encoding="utf-8")))
    match picture:
        case Boxes():
            return draw_boxes(picture)
        case Sequence():
            return draw_sequence(picture)
        case Timeline():
            return draw_timeline(picture)
        case _ as never:
            assert_never(never)
