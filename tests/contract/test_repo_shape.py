"""What holds for the repository as a whole and no linter checks."""

import ast
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Set
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_MODULES = 20
"""In one folder of the sources; a longer list is read by nobody."""
_SOURCES = ("libs/*/src/**/*.py", "services/*/src/**/*.py", "operator/src/**/*.py", "runtimes/*/src/**/*.py")
ONE_NAME_TWO_CLASSES = {
    "TritonPythonModel": "Triton's Python backend demands this name of every model",
}
"""Public classes that share a name, each with the reason."""


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


def test_no_file_holds_the_marks_of_a_merge() -> None:
    marked = subprocess.run(["git", "grep", "-lE", "^(<{7}|>{7}) "], cwd=ROOT, capture_output=True, text=True)
    assert (marked.stdout, marked.returncode) == ("", 1)


def test_the_operator_folder_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_registry_keys_are_written_in_one_file() -> None:
    sources = [
        path for path in _tracked("libs/**/*.py", "services/**/*.py", "operator/**/*.py") if path.name != "names.py"
    ]
    assert [path for path in sources if '"conch:1:' in path.read_text()] == []


def test_no_process_waits_by_what_may_lose_a_cancellation() -> None:
    """`wait_for` of Python 3.11 returns what has come at the moment of a cancellation, and drops that."""
    assert [path for path in _tracked(*_SOURCES) if "wait_for(" in path.read_text()] == []


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


def _source_modules() -> list[Path]:
    return _tracked(*_SOURCES)


def _source_folders() -> set[Path]:
    return {path.parent for path in _source_modules()}


def _packages() -> dict[str, Path]:
    """Return every package that has unit tests of its own, by its name."""
    packages = {folder.name: folder for folder in _source_folders() if folder.parent.name == "src"}
    return (
        packages | {"bench": ROOT / "bench"} | {path.name: path for path in (ROOT / "hack").iterdir() if path.is_dir()}
    )


def _misplaced(name: str, *, described: bool) -> str | None:
    """Return what is wrong with the place of a unit test; `described` says whether it has a docstring."""
    *folders, file = name.removeprefix("hack/").split("/")
    package = _packages().get(folders[0]) if folders else None
    if package is None:
        return "stands in the folder of no package"
    source = package.joinpath(*folders[1:])
    subject = file.removeprefix("test_").removesuffix(".py")
    if not source.is_dir():
        return f"there is no {source.relative_to(ROOT)}"
    if described or (source / f"{subject}.py").exists() or (source / subject).is_dir():
        return None
    return f"{source.relative_to(ROOT)} has no {subject}, and no docstring says which behaviour of it this proves"


def test_a_unit_test_stands_where_the_module_stands_that_it_is_named_after() -> None:
    """One that is named after a behaviour of a folder says in its docstring which."""
    unit = ROOT / "tests" / "unit"
    tests = {path.relative_to(unit).as_posix(): path for path in _tracked("tests/unit/**/test_*.py")}
    assert len(tests) > 100
    described = {name: ast.get_docstring(ast.parse(path.read_text())) is not None for name, path in tests.items()}
    assert {name: why for name in tests if (why := _misplaced(name, described=described[name]))} == {}


@pytest.mark.parametrize(
    ("name", "described", "found"),
    [
        ("conch_kit/registry/test_snapshot.py", False, None),
        ("conch_kit/test_registry.py", False, None),
        ("hack/cluster/test_shell.py", False, None),
        ("conch_kit/test_forgetting.py", True, None),
        ("conch_kit/test_forgetting.py", False, "has no forgetting, and no docstring"),
        ("conch_kit/records/test_snapshot.py", True, "there is no libs/kit/src/conch_kit/records"),
        ("conch_gate/test_shell.py", True, "stands in the folder of no package"),
        ("test_shell.py", True, "stands in the folder of no package"),
    ],
)
def test_a_unit_test_in_a_wrong_place_is_found(name: str, described: bool, found: str | None) -> None:
    why = _misplaced(name, described=described)
    assert why is None if found is None else found in str(why)


def test_no_folder_of_the_sources_has_more_modules_than_one_reads() -> None:
    modules = Counter(path.parent for path in _source_modules() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in modules.items() if count > MOST_MODULES} == {}


def test_every_folder_of_the_sources_says_what_lives_in_it() -> None:
    silent = []
    for folder in _source_folders():
        module = folder / "__init__.py"
        said = ast.get_docstring(ast.parse(module.read_text())) if module.exists() else None
        if said is None or not said.rstrip().endswith(".") or len(said.split()) < 4:
            silent.append(str(folder.relative_to(ROOT)))
    assert sorted(silent) == []


@pytest.mark.parametrize(
    ("patterns", "known"),
    [(_SOURCES, ONE_NAME_TWO_CLASSES.keys()), (("bench/*.py",), set())],
    ids=["sources", "bench"],
)
def test_no_two_public_classes_share_a_name(patterns: tuple[str, ...], known: Set[str]) -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in _tracked(*patterns):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name for name, files in places.items() if len(files) > 1} == known
