"""Rules for every suite: a skip is never a pass where tests are strict, and a long run says where it is."""

import os
import time
from collections import Counter
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure under CONCH_TEST_STRICT=1, keeping its reason."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CONCH_TEST_STRICT") == "1":  # noqa: TID251
        report.outcome = "failed"
        report.longrepr = f"Skipped, and CONCH_TEST_STRICT=1 allows no skip: {report.longrepr}"
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """Announce each suite with its number of tests when a run holds several."""
    suites = Counter(_suite(item.nodeid) for item in session.items)
    if len(suites) > 1:
        session.config.pluginmanager.register(_SuiteHeadings(session.config, suites))


class _SuiteHeadings:
    def __init__(self, config: pytest.Config, tests: Counter[str]) -> None:
        self._terminal = config.pluginmanager.get_plugin("terminalreporter")
        self._tests = tests
        self._current = ""
        self._began = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        suite = _suite(nodeid)
        if suite == self._current or self._terminal is None:
            return
        self._current = suite
        minutes = (time.monotonic() - self._began) / 60
        self._terminal.write_line("")
        self._terminal.section(f"{suite}: {self._tests[suite]} tests, {minutes:.0f} min so far", sep="-")


def _suite(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").partition("/")[0]
