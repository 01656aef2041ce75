"""The same SDK scenarios with the SDK's previous major version."""

from testkit.processes.client_suites import PACKAGES, passed


def test_the_previous_major_version_of_the_sdk_passes_the_same_scenarios(base_url: str) -> None:
    assert list((PACKAGES / "openai-previous").glob("openai-2.*.dist-info"))
    passed("sdk", base_url, "openai-previous")
