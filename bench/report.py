"""The figures of one run and the one table that shows them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Unit(StrEnum):
    """How a figure is written."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "µs"
    RATE = "tok/s"
    INPUTS = "inputs/s"
    REQUESTS = "req/s"
    KIBIBYTES = "KiB"
    MEBIBYTES = "MiB"
    AUDIO = "s/s"
    COUNT = ""


class Comparison(StrEnum):
    """What is held against the goal."""

    ADDED = "added"
    """Conch minus the reference."""
    TIMES = "times"
    """Conch divided by the reference."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on what Conch may cost."""

    bound: float
    at_least: bool = False

    def holds(self, value: float) -> bool:
        """Tell whether a comparison reaches the goal."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of Conch, beside the reference's where there is one."""

    name: str
    unit: Unit
    conch: float
    reference: float | None = None
    comparison: Comparison = Comparison.TIMES
    goal: Goal | None = None
    """Of what is compared."""
    bound: Goal | None = None
    """Of Conch's own figure, whatever the reference's."""

    @property
    def compared(self) -> float | None:
        """Return the ratio or the difference, None without a reference."""
        match self.reference, self.comparison:
            case None, _:
                return None
            case reference, Comparison.ADDED:
                return self.conch - reference
            case reference, _:
                return self.conch / reference if reference else None

    @property
    def passed(self) -> bool | None:
        """Tell whether the goal is reached; None when there is none."""
        if self.bound is not None:
            return self.bound.holds(self.conch)
        if self.goal is None or self.compared is None:
            return None
        return self.goal.holds(self.compared)


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that share a reference."""

    title: str
    reference: str
    """What the reference column holds."""
    rows: tuple[Row, ...] = ()
    missing: str | None = None
    """Why there are no rows."""
    subject: str = "conch"
    """What the measured column holds."""
    notes: tuple[str, ...] = ()
    """Lines below the rows."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run found."""

    date: str
    machine: str
    quick: bool
    sections: tuple[Section, ...] = field(default=())

    @property
    def complete(self) -> bool:
        """Tell whether everything that was asked for was measured."""
        return all(section.missing is None for section in self.sections)

    @property
    def reached(self) -> bool:
        """Tell whether no goal was missed."""
        return all(row.passed is not False for section in self.sections for row in section.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the figures with their comparisons."""
        raw = asdict(self)
        for section, plain in zip(self.sections, raw["sections"], strict=True):
            for row, entry in zip(section.rows, plain["rows"], strict=True):
                entry["compared"], entry["passed"] = row.compared, row.passed
        return raw


def render(report: Report) -> str:
    """Draw the table."""
    lines = [f"{report.date}, {report.machine}"]
    if report.quick:
        lines.append("A quick run: it proves that everything runs; its figures mean little.")
    for section in report.sections:
        lines += ["", *_section(section)]
    return "\n".join(lines)


def _section(section: Section) -> Iterable[str]:
    if section.missing is not None:
        return [f"{section.title}: NOT MEASURED: {section.missing}"]
    width = max(len(name) for name in (section.title, *(row.name for row in section.rows)))
    head = f"{section.title:<{width}}  {section.reference:>12}  {section.subject:>12}  {'compared':>11}  {'goal':>10}"
    return [head, "-" * len(head), *(_row(row, width) for row in section.rows), *section.notes]


def _row(row: Row, width: int) -> str:
    reference = "" if row.reference is None else figure(row.reference, row.unit)
    compared = "" if row.compared is None else _compared(row.compared, row)
    mark = {None: "", True: "  pass", False: "  FAIL"}[row.passed]
    goal = "" if row.goal is None else f"{'≥' if row.goal.at_least else '≤'} {_compared(row.goal.bound, row)}"
    if row.bound is not None:
        goal = f"≤ {figure(row.bound.bound, row.unit)}"
    line = f"{row.name:<{width}}  {reference:>12}  {figure(row.conch, row.unit):>12}  {compared:>11}  {goal:>10}{mark}"
    return line.rstrip()


def figure(value: float, unit: Unit) -> str:
    """Write a figure with its unit."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def _compared(value: float, row: Row) -> str:
    if row.comparison is Comparison.ADDED:
        return f"{value:+.1f} {row.unit}"
    return f"{value:.2f} x"
