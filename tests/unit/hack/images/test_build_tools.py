from pathlib import Path

import pytest

from images.build_tools import BuildFailed, Recipe, find_tool
from images.image_names import Image

BUSY = "echo 'Close_Fd sealing memfd copy: Device or resource busy'"


@pytest.mark.parametrize(
    ("registry", "said"),
    [("127.0.0.1:5000", ""), ("localhost", ""), ("registry.example.com", "HTTP without TLS")],
)
def test_only_the_registry_of_this_machine_may_do_without_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str, said: str
) -> None:
    refuse = "echo 'server gave HTTP response to HTTPS client'; exit 125"
    (tmp_path / "buildah").write_text(f'#!/bin/sh\ncase "$*" in *--tls-verify=false*) exit 0 ;; esac\n{refuse}\n')
    (tmp_path / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    image = Image("conch", f"{registry}/conch/conch:1")
    if said:
        with pytest.raises(BuildFailed, match=said):
            find_tool("buildah").push(image)
    else:
        assert find_tool("buildah").push(image) == ""


def _buildah(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make buildah a script that counts its runs in the variable `run`."""
    (folder / "runs").write_text("0")
    head = f"case $1 in build) ;; *) exit 0 ;; esac\nrun=$(($(cat {folder}/runs) + 1)); echo $run > {folder}/runs"
    (folder / "buildah").write_text(f"#!/bin/sh\n{head}\n{script}\n")
    (folder / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("script", "runs", "built"),
    [
        ("exit 0", 1, True),
        (f"[ $run = 3 ] || {{ {BUSY}; exit 1; }}", 3, True),
        (f"{BUSY}; exit 1", 3, False),
        ("echo 'no space left on device'; exit 1", 1, False),
    ],
)
def test_a_step_that_the_kernel_could_not_start_is_started_again_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, runs: int, built: bool
) -> None:
    _buildah(tmp_path, monkeypatch, script)
    tool = find_tool("buildah")
    if built:
        tool.build_folder(tmp_path, "conch.test/any:1")
    else:
        with pytest.raises(BuildFailed):
            tool.build_folder(tmp_path, "conch.test/any:1")
    assert int((tmp_path / "runs").read_text()) == runs


@pytest.mark.parametrize(("extras", "said"), [("containers", True), ("", False)])
def test_a_build_is_told_of_extras_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extras: str, said: bool
) -> None:
    _buildah(tmp_path, monkeypatch, f'echo "$@" >>{tmp_path}/said')
    recipe = Recipe(tmp_path, "debian:12", "1", "", {}, speech_extras=extras)
    find_tool("buildah").build_stage(recipe, "code")
    words = (tmp_path / "said").read_text().split()
    assert "--build-arg=BASE=debian:12" in words
    assert ("--build-arg=SPEECH_EXTRAS=containers" in words) == said
    assert len([word for word in words if word.startswith("--build-arg")]) == 1 + said
