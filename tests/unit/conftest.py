"""What tests of several packages need."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def kept_logging() -> Iterator[None]:
    """Keep the logging of this process as it is, whatever a test's code makes of it."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
