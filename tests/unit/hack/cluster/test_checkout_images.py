import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.checkout_images import check_builder, require_builder
from cluster.errors import ClusterUnavailable
from cluster.provider import Access
from cluster.shell import Shell


def _machine(folder: Path, programs: dict[str, str], **variables: str) -> Shell:
    """Make a shell whose only programs are these scripts."""
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return Shell.without_proxies({"PATH": str(folder), **variables})


NO_DAEMON, WORKS = "exit 1", "exit 0"


@pytest.mark.parametrize(
    ("programs", "variables", "refusal"),
    [
        ({"docker": WORKS}, {}, ""),
        ({"podman": WORKS}, {}, ""),
        ({"docker": NO_DAEMON, "podman": WORKS}, {}, ""),
        ({"docker": NO_DAEMON, "buildah": WORKS, "debootstrap": WORKS}, {}, ""),
        ({}, {}, "needs buildah, debootstrap. As root: apt-get install -y buildah debootstrap"),
        ({"docker": NO_DAEMON}, {}, "needs buildah, debootstrap. As root: apt-get install -y buildah debootstrap"),
        ({"docker": WORKS}, {"CONCH_IMAGE_TOOL": "podman"}, "CONCH_IMAGE_TOOL is podman"),
        ({"docker": NO_DAEMON}, {"CONCH_IMAGE_TOOL": "docker"}, "CONCH_IMAGE_TOOL is docker"),
        ({"docker": WORKS}, {"CONCH_IMAGE_TOOL": "buildah"}, "apt-get install -y buildah debootstrap"),
    ],
)
def test_what_builds_images_is_there_or_the_command_that_brings_it_is_named(
    programs: dict[str, str], variables: dict[str, str], refusal: str, tmp_path: Path
) -> None:
    shell = _machine(tmp_path, programs, **variables)
    if not refusal:
        return require_builder(shell)
    with pytest.raises(ClusterUnavailable) as refused:
        require_builder(shell)
    assert refusal in str(refused.value)
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
@pytest.mark.parametrize(
    ("programs", "installed"),
    [
        ({"docker": NO_DAEMON}, "install -y buildah debootstrap -qq"),
        ({"buildah": WORKS}, "install -y debootstrap -qq"),
    ],
)
def test_root_gets_what_builds_images_installed(programs: dict[str, str], installed: str, tmp_path: Path) -> None:
    shell = _machine(tmp_path, {**programs, "apt-get": f'echo "$@" >> {tmp_path}/asked'})
    require_builder(shell)
    assert (tmp_path / "asked").read_text().splitlines() == ["update -qq", installed]


class _Stopped:
    """A cluster that does not run."""

    def __init__(self, access: Access | None) -> None:
        self._access = access

    def up(self) -> Access:
        raise AssertionError

    def running(self) -> Access | None:
        return self._access

    def images(self) -> frozenset[str]:
        return frozenset()

    def load(self, archives: Sequence[Path]) -> None:
        raise AssertionError

    def status(self) -> bool:
        return False

    def down(self) -> None:
        raise AssertionError


def test_a_builder_is_asked_for_before_a_cluster_is_started_and_not_where_one_runs(tmp_path: Path) -> None:
    shell = _machine(tmp_path, {"docker": NO_DAEMON})
    with pytest.raises(ClusterUnavailable, match="apt-get install -y buildah debootstrap"):
        check_builder(_Stopped(None), shell)
    check_builder(_Stopped(Access(tmp_path / "config")), shell)
