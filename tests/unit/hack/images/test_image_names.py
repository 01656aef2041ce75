from pathlib import Path

import pytest

from images.image_names import NAMES, Image, Naming

_ROOT = Path(__file__).resolve().parents[4]


def test_prefix_and_version_name_the_images() -> None:
    environ = {"CONCH_IMAGE_PREFIX": "registry.example:5000/conch", "CONCH_IMAGE_VERSION": "1.2.0"}
    image = Naming.from_environ(environ, _ROOT).image("gateway")
    assert image == Image("gateway", "registry.example:5000/conch/gateway:1.2.0")


def test_the_tag_says_which_extras_are_in_the_speech_worker() -> None:
    plain = Naming.from_environ({}, _ROOT)
    named = Naming.from_environ({"CONCH_IMAGE_SPEECH_EXTRAS": "containers"}, _ROOT)
    assert (plain.speech_extras, named.speech_extras) == ("", "containers")
    assert named.version == f"{plain.version}-containers"
    given = {"CONCH_IMAGE_SPEECH_EXTRAS": "containers", "CONCH_IMAGE_VERSION": "1.2.0"}
    assert Naming.from_environ(given, _ROOT).version == "1.2.0"


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
