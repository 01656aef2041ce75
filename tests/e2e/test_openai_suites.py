"""The audio tests of OpenAI's SDK, unchanged, against Conch: they want types, whatever is said.

They send a few letters as their file and name OpenAI's models; a proxy puts words of the example and its model there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.http.recording_proxy import RecordingProxy, recording_proxy
from testkit.processes.conch_up import ROOT

VENV = ROOT / ".venv"
SOURCES = VENV / "openai-tests"
SUITES = [f"tests/api_resources/audio/test_{name}.py" for name in ("transcriptions", "translations")]
WORDS = (ROOT / "examples" / "tiny-whisper" / "wavs" / "one_two_three.wav").read_bytes()
FILES, MODELS = (b"Example data", b"raw file contents"), (b"gpt-4o-transcribe", b"whisper-1")
REFUSED = "with_all_params_overload"
"""Those that ask for names of speakers and speak in `language`: each is a 400 by its name."""


def as_speech(body: bytes) -> bytes:
    """Return a form with a file that can be heard, and a model that hears it."""
    for values, instead in ((FILES, WORDS), (MODELS, b"tiny-whisper")):
        for value in values:
            body = body.replace(b"\r\n\r\n" + value + b"\r\n", b"\r\n\r\n" + instead + b"\r\n")
    return body


@pytest.fixture
def api(base_url: str) -> Iterator[RecordingProxy]:
    with recording_proxy(base_url, as_speech) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("major", "packages"), [("3.", ()), ("2.", (VENV / "openai-previous", SOURCES / "packages", VENV / "clients"))]
)
def test_the_sdk_s_own_audio_tests_pass(api: RecordingProxy, major: str, packages: tuple[Path, ...]) -> None:
    (folder,) = SOURCES.glob(f"openai-{major}*[0-9]")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
        "-q",
        "-rA",
    ]
    command += ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=session", "--tb=line", *SUITES]
    settings = {"TEST_API_BASE_URL": api.base_url, "PYTHONPATH": os.pathsep.join(map(str, packages))}
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **settings},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    passed, failed, broken = (
        [line for line in run.stdout.splitlines() if line.startswith(f"{word} tests/")]
        for word in ("PASSED", "FAILED", "ERROR")
    )
    assert passed, run.stdout[-3000:] + run.stderr[-1000:]
    assert [line for line in failed if REFUSED not in line] == broken == [], broken or run.stdout[-6000:]
    refusals = [json.loads(answer.body)["error"] for answer in api.answers if answer.status == 400]
    assert len(refusals) == len(failed) > 0
    assert {refusal["code"] for refusal in refusals} <= {"unsupported_parameter", "invalid_value"}
    assert {answer.status for answer in api.answers} == {200, 400}
