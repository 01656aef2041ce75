"""Anthropic's SDK for the running Conch."""

from collections.abc import Iterator

import pytest
from anthropic import Anthropic


@pytest.fixture
def client(base_url: str, api_key: str) -> Iterator[Anthropic]:
    with Anthropic(base_url=base_url.removesuffix("/v1"), api_key=api_key, max_retries=0) as sdk:
        yield sdk
