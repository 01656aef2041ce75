import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cluster import checkout_images
from cluster.checkout_images import check_builder, ensure_images, require_builder
from cluster.errors import ClusterUnavailable
from cluster.provider import Access
from cluster.shell import Shell
from images.image_names import NAMES
from testkit.servers.tokenizer import runs


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


class _Cluster:
    """A cluster without images, which runs when there is a way to reach it."""

    def __init__(self, access: Access | None) -> None:
        self._access = access
        self.loaded: list[Path] = []
        self.before_import: Callable[[Path], None] = lambda archive: None

    def up(self) -> Access:
        raise AssertionError

    def running(self) -> Access | None:
        return self._access

    def images(self) -> frozenset[str]:
        return frozenset()

    def load(self, archives: Iterable[Path]) -> None:
        for archive in archives:
            self.before_import(archive)
            assert archive.read_text() == "an image\n"
            assert not any(path.exists() for path in self.loaded)
            self.loaded.append(archive)

    def status(self) -> bool:
        return False

    def down(self) -> None:
        raise AssertionError


def test_a_builder_is_asked_for_before_a_cluster_is_started_and_not_where_one_runs(tmp_path: Path) -> None:
    shell = _machine(tmp_path, {"docker": NO_DAEMON})
    with pytest.raises(ClusterUnavailable, match="apt-get install -y buildah debootstrap"):
        check_builder(_Cluster(None), shell)
    check_builder(_Cluster(Access(tmp_path / "config")), shell)


_BUILDER = """case $1 in
  push) eval "to=\\${$#}"; to=${to#docker-archive:}; echo an image >"${to%%:*}";;
esac"""


def _builder(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Shell:
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(checkout_images, "_BUILD", "/bin/true")  # the real one would wait for a build that runs beside
    return _machine(folder, {"buildah": script, "debootstrap": WORKS}, CONCH_IMAGE_TOOL="buildah")


def test_images_come_to_a_cluster_one_by_one_and_no_archive_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = _builder(tmp_path, monkeypatch, _BUILDER)
    cluster = _Cluster(Access(tmp_path / "config"))
    ensure_images(cluster, shell)
    assert [archive.stem for archive in cluster.loaded] == list(NAMES)
    assert not any(archive.parent.exists() for archive in cluster.loaded)


def test_an_end_while_an_image_is_imported_ends_what_writes_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = tmp_path / "writer"
    shell = _builder(tmp_path, monkeypatch, f"case $* in *{NAMES[1]}*) echo $$ >{writer}; sleep 600;; esac\n{_BUILDER}")
    cluster = _Cluster(Access(tmp_path / "config"))

    archives: list[Path] = []

    def end_when_the_next_is_written(archive: Path) -> None:
        archives.append(archive)
        deadline = time.monotonic() + 60
        while not (writer.exists() and writer.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        sys.exit(143)

    cluster.before_import = end_when_the_next_is_written
    with pytest.raises(SystemExit):
        ensure_images(cluster, shell)
    assert not runs(int(writer.read_text()))
    assert not archives[0].parent.exists()
