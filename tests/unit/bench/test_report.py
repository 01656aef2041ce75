import pytest
from bench.report import Comparison, Goal, Report, Row, Section, Unit, render


@pytest.mark.parametrize(
    ("row", "compared", "passed"),
    [
        (Row("no reference", Unit.MICROSECONDS, 5.0), None, None),
        (Row("no goal", Unit.MICROSECONDS, 5.0, 2.0), 2.5, None),
        (Row("dear", Unit.MICROSECONDS, 5.0, 2.0, goal=Goal(2.2)), 2.5, False),
        (Row("cheap", Unit.MICROSECONDS, 4.4, 2.0, goal=Goal(2.2)), 2.2, True),
        (Row("fast", Unit.RATE, 80.0, 100.0, goal=Goal(0.75, at_least=True)), 0.8, True),
        (Row("slow", Unit.RATE, 70.0, 100.0, goal=Goal(0.75, at_least=True)), 0.7, False),
        (Row("late", Unit.MILLISECONDS, 7.5, 2.5, Comparison.ADDED, Goal(4.0)), 5.0, False),
        (Row("nothing to divide by", Unit.COUNT, 1.0, 0.0, goal=Goal(1.0)), None, None),
    ],
    ids=lambda value: value.name if isinstance(value, Row) else "",
)
def test_a_row_is_held_against_its_goal(row: Row, compared: float | None, passed: bool | None) -> None:
    assert row.compared == (None if compared is None else pytest.approx(compared))
    assert row.passed is passed


@pytest.mark.parametrize(("cost", "reached"), [(2.0, True), (7.5, False)])
def test_a_report_tells_whether_a_goal_was_missed(cost: float, reached: bool) -> None:
    rows = (Row("no goal", Unit.COUNT, 9.0), Row("a goal", Unit.MILLISECONDS, cost, 1.0, goal=Goal(4.0)))
    missing = Section("Gateway's relay", "nginx", missing="nginx is missing")
    report = Report("1 May 2027", "2 cores", quick=False, sections=(missing, Section("Whole path", "direct", rows)))
    assert report.reached is reached


def test_the_table_names_what_was_not_measured_and_marks_goals() -> None:
    slow = Row("16 streams: tokens per second", Unit.RATE, 12345.6, 20000.0, goal=Goal(0.75, at_least=True))
    added = Row("1 stream: time to first token", Unit.MILLISECONDS, 4.25, 2.0, Comparison.ADDED, Goal(4.0))
    report = Report(
        date="1 May 2027",
        machine="2 cores",
        quick=False,
        sections=(
            Section("Whole path", "direct gRPC", (slow, added)),
            Section("Gateway's relay", "nginx", missing="nginx is missing"),
        ),
    )
    assert not report.complete
    assert render(report) == (
        "1 May 2027, 2 cores\n"
        "\n"
        "Whole path                      direct gRPC         conch     compared        goal\n"
        "----------------------------------------------------------------------------------\n"
        "16 streams: tokens per second  20,000 tok/s  12,346 tok/s       0.62 x    ≥ 0.75 x  FAIL\n"
        "1 stream: time to first token       2.00 ms       4.25 ms      +2.2 ms   ≤ +4.0 ms  pass\n"
        "\n"
        "Gateway's relay: NOT MEASURED: nginx is missing"
    )


def test_json_carries_comparisons_and_marks() -> None:
    row = Row("events", Unit.MICROSECONDS, 4.0, 2.0, goal=Goal(2.2))
    report = Report("1 May 2027", "2 cores", quick=True, sections=(Section("Relay", "nginx", (row,)),))
    written = report.as_json()["sections"][0]["rows"][0]
    assert (written["compared"], written["passed"]) == (2.0, True)
