"""Puts the last table into docs/performance.md, between its two marks."""

from pathlib import Path

from bench.conversations import ROOT
from bench.report import Report, render

PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- begin: written by make bench ARGS=--write-docs -->"
END = "<!-- end -->"


def write(report: Report, page: Path = PAGE) -> None:
    """Replace the marked block of the page; raises ValueError when a mark is missing."""
    page.write_text(with_table(page.read_text(), report))


def with_table(text: str, report: Report) -> str:
    """Return the page's text with the report in its marked block."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/performance.md must hold the lines {BEGIN!r} and {END!r}.")
    return f"{before}{BEGIN}\n```\n{render(report)}\n```\n{END}{after}"
