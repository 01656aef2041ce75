"""What who runs the tests is told: which suites there are, how long they take, and how far a run is."""

import re
import subprocess
import sys

from testkit.processes.conch_up import ROOT

SUITES = ("unit", "contract", "integration", "e2e", "kubernetes")


def test_help_lists_each_suite_and_what_answers_soon() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    told = dict(re.findall(r"^  (\S+) +(\S.*)$", done.stdout, re.MULTILINE))
    assert told.keys() >= {*SUITES, "test", "check", "fuzz", "soak"}
    assert re.search(r"about \S+ minutes", told["test"])
    assert re.search(r"about \S+ minutes", told["check"])


def test_the_whole_run_says_first_what_it_will_run_and_how_long_that_takes() -> None:
    said, _, rest = (ROOT / "hack" / "test").read_text().partition("\nTEXT\n")
    text = said.partition("<<'TEXT'\n")[2]
    assert re.search(r"about \d+ minutes", text)
    assert all(f"`make {suite}`" in text for suite in (*SUITES, "check"))
    assert "hack/check" in rest
    run = rest + (ROOT / "hack" / "check").read_text()
    assert all(f"tests/{suite}" in run for suite in SUITES)


def test_a_run_of_several_suites_says_at_which_it_is() -> None:
    small = ("tests/unit/conch_contracts/test_conditions.py", "tests/contract/test_internal_messages.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *small]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    told = re.findall(r"^-+ (\w+): [1-9]\d* tests?, \d+ min so far -+$", done.stdout, re.MULTILINE)
    assert told == ["unit", "contract"], done.stdout
