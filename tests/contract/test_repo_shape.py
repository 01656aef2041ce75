"""What holds for the repository as a whole and no linter checks."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_module_is_longer_than_400_lines() -> None:
    long = {str(path): count for path in _tracked("*.py") if (count := len(path.read_text().splitlines())) > 400}
    assert long == {}


def test_the_operator_folder_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_registry_keys_are_written_in_one_file() -> None:
    sources = [
        path for path in _tracked("libs/**/*.py", "services/**/*.py", "operator/**/*.py") if path.name != "names.py"
    ]
    assert [path for path in sources if '"conch:1:' in path.read_text()] == []


def test_every_constraint_is_one_exact_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if line.count("==") != 1] == []


@pytest.mark.parametrize("manifest", _tracked("*/pyproject.toml", "*/*/pyproject.toml"), ids=str)
def test_a_distribution_is_typed_and_cannot_be_uploaded(manifest: Path) -> None:
    project = tomllib.loads(manifest.read_text())
    assert "Private :: Do Not Upload" in project["project"]["classifiers"]
    (package,) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (manifest.parent / package / "py.typed").exists()
    assert (manifest.parent / "README.md").exists()


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80
