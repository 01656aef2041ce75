"""Helm for the tests of the chart; where there is none, they are skipped by name with the reason."""

import os

import pytest

from generate.chart_renders import CASES, case_names
from generate.helm import Helm, HelmMissing
from testkit.kubernetes.chart import Rendered, render


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Give the helm of this machine."""
    try:
        return Helm.find(os.environ)  # noqa: TID251 - the edge of the suite
    except HelmMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session", params=case_names())
def rendered(helm: Helm, request: pytest.FixtureRequest) -> Rendered:
    """Give the chart rendered with each committed set of values."""
    return render(helm, "--values", CASES / f"{request.param}.yaml")


@pytest.fixture(scope="session")
def plain(helm: Helm) -> Rendered:
    """Give the chart rendered with its own values only."""
    return render(helm)
