"""Clients of other makers, unchanged, in processes of their own, because they need other versions than the tests.

What they get is kept and must follow the schemas that OpenAI publishes.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.http.openai_schemas import check_answer
from testkit.http.recording_proxy import RecordingProxy, recording_proxy
from testkit.processes.client_suites import passed

PASSES = (Path(__file__).parent / "clients" / "langchain-passes.txt").read_text().splitlines()


@pytest.fixture
def api(base_url: str) -> Iterator[RecordingProxy]:
    """Return what stands before Conch; whatever clients ask of it, its answers follow the schemas."""
    with recording_proxy(base_url) as proxy:
        yield proxy
    assert proxy.answers
    for answer in proxy.answers:
        check_answer(answer.path, answer.status, answer.content_type, answer.body)


@pytest.mark.parametrize(
    ("suite", "packages"),
    [
        ("check_clients.py", "clients"),
        ("check_speech.py", "clients"),
        ("check_instructor.py", "clients"),
        ("check_agents.py", "frameworks"),
    ],
)
def test_official_clients_work_unchanged(api: RecordingProxy, suite: str, packages: str) -> None:
    passed(f"clients/{suite}", api.base_url, packages)


def test_langchain_passes_what_it_passed(api: RecordingProxy) -> None:
    assert sorted(passed("clients/check_langchain.py", api.base_url, "frameworks")) == PASSES


def test_every_answer_is_one_that_our_document_describes(base_url: str) -> None:
    plugins = ("_hypothesis_pytestplugin", "schemathesis.pytest.plugin")
    passed("clients/check_openapi.py", base_url, "frameworks", plugins=plugins)
