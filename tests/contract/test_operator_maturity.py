"""The page about the operator's maturity names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operator-maturity.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and "::" in line]


def test_the_page_has_rows() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_row_names_a_test_that_exists(row: str) -> None:
    named = re.findall(r"`([^`:]+\.py)::(\w+)`", row)
    assert named
    assert [name for file, name in named if name not in _functions(ROOT / file)] == []


def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
