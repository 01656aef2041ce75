"""What `conch up` refuses before anything runs."""

import argparse
from pathlib import Path

import pytest

from conch_operator.cli import up
from conch_operator.cli.errors import CommandError, UsageError
from conch_operator.local.state_folder import StateFolder

pytestmark = pytest.mark.usefixtures("kept_logging")

MODEL = """
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: tiny}}
spec: {{kind: LLM, source: {{path: {path}}}, engine: {{cpu: {{}}}}}}
"""


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """End what gets as far as to look for a server."""

    def find_triton() -> None:
        raise AssertionError("It was not refused.")

    monkeypatch.setattr(up, "find_triton", find_triton)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    file = tmp_path / "models.yaml"
    file.write_text(MODEL.format(path="nowhere"))
    return file


def run(state: Path, *files: Path, **environ: str) -> int:
    parser = argparse.ArgumentParser()
    up.add(parser.add_subparsers(), environ)
    named = [word for file in files for word in ("-f", str(file))]
    arguments = parser.parse_args(["up", "--state-dir", str(state), *named])
    return int(arguments.run(arguments))


def test_it_must_be_told_what_to_serve(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Name what to serve"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("LOG_LEVEL", "LOUD", "LOG_LEVEL must be one of CRITICAL.*found LOUD"),
        ("CONCH_REDIS_URL", "http://redis:6379", "CONCH_REDIS_URL must begin with one of redis://"),
    ],
)
def test_a_setting_that_is_none_is_named(tmp_path: Path, models: Path, setting: str, value: str, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run(tmp_path / "state", models, **{setting: value})


def test_a_state_folder_that_is_in_use_is_told_with_its_holder(tmp_path: Path, models: Path) -> None:
    with (
        StateFolder(tmp_path / "state").held(),
        pytest.raises(CommandError, match=r"Another conch up \(process \d+\) uses the state folder"),
    ):
        run(tmp_path / "state", models)


def test_a_state_folder_that_cannot_be_one_is_named(tmp_path: Path, models: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(CommandError, match=r"choose another with --state-dir\."):
        run(tmp_path / "state", models)


def test_files_and_folders_that_are_not_there_are_named(tmp_path: Path, models: Path) -> None:
    with pytest.raises(CommandError, match=r"tiny: The folder .*nowhere does not exist"):
        run(tmp_path / "state", models)
    with pytest.raises(CommandError, match=r"none\.yaml: no such file"):
        run(tmp_path / "state", tmp_path / "none.yaml")


@pytest.mark.parametrize("port", ["", "-1", "65536", "1e3", "\u0663"])
def test_a_port_that_is_none_is_no_port(port: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="between 0 and 65535"):
        up._port(port)


def test_processes_get_no_setting_and_the_gateway_none_that_is_not_its_own() -> None:
    environ = {"PATH": "/bin", "CONCH_REDIS_URL": "redis://h", "CONCH_API_KEYS_FILE": "keys"}
    read = up._read_environment(environ, argparse.Namespace(verbose=False))
    assert read == up.Environment("redis://h", "INFO", {"CONCH_API_KEYS_FILE": "keys"}, {"PATH": "/bin"})
