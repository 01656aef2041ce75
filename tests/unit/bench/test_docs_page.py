import pytest
from bench.docs_page import BEGIN, END, PAGE, with_table
from bench.report import Report

REPORT = Report("1 May 2027", "2 cores", quick=False)


def test_only_the_marked_block_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_table(page, REPORT) == f"before\n{BEGIN}\n```\n1 May 2027, 2 cores\n```\n{END}\nafter\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="must hold the lines"):
        with_table("no marks", REPORT)


def test_the_page_in_the_repository_has_its_marks() -> None:
    assert BEGIN in with_table(PAGE.read_text(), REPORT)
