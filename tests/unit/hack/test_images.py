import runpy
import sys
from pathlib import Path

import pytest

from images import pip_settings
from images.image_names import NAMES, Image, Naming

_ROOT = Path(__file__).resolve().parents[3]


def requirements(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["requirements.py", *arguments])
    runpy.run_path(str(_ROOT / "hack/images/requirements.py"), run_name="__main__")
    return capsys.readouterr().out.split()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name, needs in (
        ("libs/core", "conch-core", '"pydantic>=2"'),
        ("services/door", "conch-door", '"conch-core", "uvicorn[standard]"'),
        ("operator", "conch-operator", '"conch-core", "kopf"'),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\ndependencies = [{needs}]\n')
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("repository")
def test_an_image_needs_what_its_own_distributions_need_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert requirements(monkeypatch, capsys, "third-party", "conch-door") == ["pydantic>=2", "uvicorn[standard]"]
    assert requirements(monkeypatch, capsys, "ours", "conch-door") == ["conch-core", "conch-door"]


def test_prefix_and_version_name_the_images() -> None:
    environ = {"CONCH_IMAGE_PREFIX": "registry.example:5000/conch", "CONCH_IMAGE_VERSION": "1.2.0"}
    image = Naming.from_environ(environ, _ROOT).image("gateway")
    assert image == Image("gateway", "registry.example:5000/conch/gateway:1.2.0")
    assert image.archive == "gateway.tar"


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("libs/kit/code.py", True),
        ("libs/kit/new.py", True),
        ("Dockerfile", True),
        ("docs/page.md", False),
        ("libs/kit/__pycache__/code.pyc", False),
    ],
)
def test_the_tag_changes_with_what_the_images_hold(tmp_path: Path, path: str, counts: bool) -> None:
    for name, text in (
        ("Dockerfile", "FROM base"),
        (".dockerignore", "# only this\n*\n!libs\n**/__pycache__\n"),
        ("libs/kit/code.py", "pass"),
        ("docs/page.md", "words"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = Naming.from_environ({}, tmp_path)
    assert before == Naming.from_environ({}, tmp_path)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("changed")
    assert (Naming.from_environ({}, tmp_path) != before) == counts


def test_every_name_is_a_target_of_the_dockerfile() -> None:
    stages = [line.split() for line in (_ROOT / "Dockerfile").read_text().splitlines() if line.startswith("FROM ")]
    assert [words[-1] for words in stages if words[1] == "runtime"] == list(NAMES)


def test_certificate_authorities_become_a_secret_and_not_a_path(tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.crt"
    authorities.write_text("-----BEGIN CERTIFICATE-----")
    secrets = pip_settings.write(tmp_path, {"PIP_CERT": str(authorities), "PIP_TIMEOUT": "77"})
    text = secrets["pip_conf"].read_text()
    assert "cert = /run/secrets/ca" in text
    assert "timeout = 77" in text
    assert secrets["ca"].read_text() == authorities.read_text()
