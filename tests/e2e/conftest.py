"""One running Conch for all end-to-end tests that do not break it."""

import os
from collections.abc import Iterator

import pytest

from testkit.models.golden import Golden, load_golden
from testkit.processes.conch_up import EXAMPLES, ConchUp


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a Conch that serves the examples: the one that OPENAI_BASE_URL names, else our own."""
    named = os.environ.get("OPENAI_BASE_URL")  # noqa: TID251
    if named:
        yield named
        return
    with ConchUp(tmp_path_factory.mktemp("conch") / "state", *EXAMPLES) as conch:
        yield conch.base_url


@pytest.fixture(scope="session")
def api_key() -> str:
    """Return a key of that Conch: the one that OPENAI_API_KEY names, else any, since our own has no keys."""
    return os.environ.get("OPENAI_API_KEY", "x")  # noqa: TID251


@pytest.fixture(scope="session")
def golden() -> Golden:
    """Return the reference outputs of tiny-chat."""
    return load_golden()
