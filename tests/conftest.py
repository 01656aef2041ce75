"""Rules for every suite: no skip passes where tests are strict, no test hangs, and a long run says where it is."""

import os
import signal
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None)
settings.register_profile("fuzz", max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))
"""What `make fuzz` runs the tests of hostile peers with, round by round."""

_HANGS_S = {"unit": 120.0, "contract": 120.0, "integration": 600.0, "e2e": 900.0, "kubernetes": 3600.0}
"""How long a test, its set-up or its clean-up may take: many times what any takes, a cluster that is made included."""
_AGAIN_S = 5.0
"""After which it is told again: a task that a test has left may have swallowed it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Fail a set-up that hangs."""
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that hangs."""
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail a clean-up that hangs."""
    with _limited(item):
        return (yield)


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


@contextmanager
def _limited(item: pytest.Item) -> Iterator[None]:
    suite = "fuzz" if settings.get_current_profile_name() == "fuzz" else _suite(item.nodeid)
    limit_s = _HANGS_S.get(suite, max(_HANGS_S.values()))

    def hangs(*_: object) -> None:
        pytest.fail(f"This hangs: it has not ended after {limit_s:g} s.")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _suite(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").partition("/")[0]
