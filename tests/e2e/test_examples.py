"""The example programs, and those in the pages, run as they are and print what is said of them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.processes.conch_up import ROOT

HERE = "http://localhost:8000"
"""What a program in a page asks; one that asks anything else is not for `make up`."""
_PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:\n(?:[^\n]+\n\n)?```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [
    pytest.param(match[1], match[2], id=f"{page.stem}-{page.read_text()[: match.start()].count(chr(10)) + 1}")
    for page in PAGES
    for match in _PROGRAM.finditer(page.read_text())
    if HERE in match[1]
]


def _run(*arguments: str | Path, base_url: str) -> str:
    run = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "OPENAI_BASE_URL": base_url},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


def test_the_example_embeds_reranks_and_asks_the_language_model(base_url: str) -> None:
    assert _run(ROOT / "examples" / "rag.py", base_url=base_url).splitlines() == [
        "Context: The capital of France is Paris.",
        "Answer: The capital of France is Paris.",
    ]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_in_a_page_prints_what_stands_below_it(program: str, printed: str | None, base_url: str) -> None:
    found = _run("-c", program.replace(HERE, base_url.removesuffix("/v1")), base_url=base_url)
    assert found.strip()
    if printed is not None:
        assert found.rstrip("\n") == printed.rstrip("\n")
