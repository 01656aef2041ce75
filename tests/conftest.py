"""Rules for every suite: a skip is never a pass where tests are strict."""

import os
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
