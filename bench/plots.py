"""Draws each section of a report as a bar chart: every row on a scale of its own, because units differ."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from bench.report import Comparison, Report, Row, Section, figure

_LABELS, _BARS, _FIGURES, _ROW, _HEAD = 380, 400, 120, 44, 56
_CONCH, _REFERENCE, _GOAL = "#2b6cb0", "#a0aec0", "#c53030"


def write(report: Report, folder: Path) -> None:
    """Write one SVG per section that was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for section in report.sections:
        if section.rows:
            (folder / f"{file_name(section.title)}.svg").write_text(chart(section))


def file_name(title: str) -> str:
    """Return a section's title in lower case, with dashes between its words."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def chart(section: Section) -> str:
    """Draw a section; the same section gives the same bytes."""
    width, height = _LABELS + _BARS + _FIGURES, _HEAD + _ROW * len(section.rows) + 10
    legend = f"{section.subject} (blue), {section.reference or 'no reference'} (grey), goal (red line)"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            _text(10, 22, section.title, size=16),
            _text(10, 42, legend),
            *(line for place, row in enumerate(section.rows) for line in _row(row, _HEAD + _ROW * place)),
            "</svg>\n",
        )
    )


def goal_figure(row: Row) -> float | None:
    """Return the figure at which the row's goal is just reached, None without a goal."""
    if row.bound is not None:
        return row.bound.bound
    if row.goal is None or row.reference is None:
        return None
    if row.comparison is Comparison.ADDED:
        return row.reference + row.goal.bound
    return row.reference * row.goal.bound


def _row(row: Row, top: int) -> Iterator[str]:
    goal = goal_figure(row)
    longest = max(row.conch, row.reference or 0.0, goal or 0.0) or 1.0
    yield _text(10, top + 24, row.name)
    bars = ((row.conch, _CONCH), (row.reference, _REFERENCE))
    for place, (value, colour) in enumerate(bars):
        if value is None:
            continue
        length, y = max(0.0, value) / longest * _BARS, top + 4 + 16 * place
        yield f'<rect x="{_LABELS}" y="{y}" width="{length:.1f}" height="14" fill="{colour}"/>'
        yield _text(_LABELS + _BARS + 8, y + 12, figure(value, row.unit))
    if goal is not None:
        x = f"{_LABELS + goal / longest * _BARS:.1f}"
        yield f'<line x1="{x}" x2="{x}" y1="{top + 2}" y2="{top + 36}" stroke="{_GOAL}" stroke-width="2"/>'


def _text(x: int, y: int, text: str, *, size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{escape(text)}</text>'
