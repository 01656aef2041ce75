import runpy
import sys
from pathlib import Path

import pytest

_REQUIREMENTS = Path(__file__).resolve().parents[4] / "hack" / "images" / "requirements.py"


def requirements(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["requirements.py", *arguments])
    runpy.run_path(str(_REQUIREMENTS), run_name="__main__")
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
    with (tmp_path / "services/door/pyproject.toml").open("a") as file:
        file.write('[project.optional-dependencies]\nwide = ["hinge", "conch-operator"]\n')
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("repository")
def test_an_image_needs_what_its_own_distributions_need_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert requirements(monkeypatch, capsys, "third-party", "conch-door") == ["pydantic>=2", "uvicorn[standard]"]
    assert requirements(monkeypatch, capsys, "ours", "conch-door") == ["conch-core", "conch-door"]


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("conch-door[]", ["pydantic>=2", "uvicorn[standard]"]),
        ("conch-door[wide]", ["hinge", "kopf", "pydantic>=2", "uvicorn[standard]"]),
    ],
)
def test_an_image_has_an_extra_only_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, needs: list[str]
) -> None:
    assert requirements(monkeypatch, capsys, "third-party", name) == needs


@pytest.mark.usefixtures("repository")
def test_an_extra_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="conch-door has no extra 'tall'; it has wide"):
        requirements(monkeypatch, capsys, "third-party", "conch-door[tall]")
