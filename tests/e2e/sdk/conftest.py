"""The SDK's client for the running Conch."""

from collections.abc import Iterator

import pytest
from openai import OpenAI


@pytest.fixture
def client(base_url: str, api_key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=base_url, api_key=api_key, max_retries=0) as sdk:
        yield sdk
