from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench import plots
from bench.report import Comparison, Goal, Report, Row, Section, Unit

_ADDED = Row("first token <1>", Unit.MILLISECONDS, 6.0, 2.0, Comparison.ADDED, Goal(4.0))


@pytest.mark.parametrize(
    ("row", "figure"),
    [
        (_ADDED, 6.0),
        (Row("ratio", Unit.MICROSECONDS, 3.0, 2.0, goal=Goal(1.5)), 3.0),
        (Row("own", Unit.SECONDS, 0.3, bound=Goal(0.5)), 0.5),
        (Row("no goal", Unit.COUNT, 1.0, 1.0), None),
        (Row("no reference", Unit.COUNT, 1.0, goal=Goal(2.0)), None),
    ],
    ids=lambda value: value.name if isinstance(value, Row) else "",
)
def test_a_goal_stands_at_the_figure_that_just_reaches_it(row: Row, figure: float | None) -> None:
    assert plots.goal_figure(row) == figure


def test_a_chart_is_svg_with_two_bars_a_row_and_a_line_for_the_goal() -> None:
    drawn = plots.chart(Section("Whole path", "direct", (_ADDED, Row("zero", Unit.COUNT, 0.0))))
    tags = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()]
    assert (tags.count("rect"), tags.count("line")) == (1 + 3, 1)
    assert "first token &lt;1&gt;" in drawn


def test_a_file_is_written_for_each_section_that_has_rows(tmp_path: Path) -> None:
    sections = (Section("Gateway's relay", "nginx", (_ADDED,)), Section("Embeddings", "", missing="no engine"))
    plots.write(Report("1 May 2027", "2 cores", quick=False, sections=sections), tmp_path / "plots")
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["gateway-s-relay.svg"]
