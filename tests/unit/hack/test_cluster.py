import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.checkout_images import check_builder, require_builder
from cluster.errors import ClusterError, ClusterUnavailable
from cluster.existing_cluster import ExistingCluster
from cluster.local.addons import traefik_manifest
from cluster.local.layout import Layout
from cluster.local.local_cluster import LocalCluster
from cluster.local.node import remember_kernel
from cluster.provider import Access
from cluster.provider_choice import choose
from cluster.settings import Settings
from cluster.shell import Shell


def test_exports_survive_a_shell(tmp_path: Path) -> None:
    access = Access(tmp_path / "a b", tmp_path / "bin", direct=("127.0.0.1",))
    words = shlex.split(access.exports())
    assert words[0] == "export"
    assert words[1] == f"KUBECONFIG={tmp_path / 'a b'}"
    assert words[2] == f"PATH={tmp_path / 'bin'}:$PATH"


@pytest.mark.parametrize("name", ["CONCH_TEST_KUBECONFIG", "CONCH_CLUSTER_BINARIES"])
def test_a_path_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=f"{name} names no .*nowhere"):
        Settings.from_environ({name: str(tmp_path / "nowhere")})


def test_a_home_that_mount_options_cannot_hold_is_refused() -> None:
    with pytest.raises(ClusterError, match="CONCH_CLUSTER_HOME"):
        Settings.from_environ({"CONCH_CLUSTER_HOME": "/var/lib/a,b"})


def test_a_given_cluster_is_used_and_without_one_or_docker_this_machine(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    shell = Shell.without_proxies({"PATH": str(tmp_path)})
    given = Settings.from_environ({"CONCH_TEST_KUBECONFIG": str(tmp_path / "config")})
    assert isinstance(choose(given, shell), ExistingCluster)
    assert isinstance(choose(Settings.from_environ({}), shell), LocalCluster)


def test_programs_of_this_machine_see_no_proxy_and_downloads_do() -> None:
    shell = Shell.without_proxies({"HTTPS_PROXY": "http://proxy.example", "HOME": "/root"})
    assert "HTTPS_PROXY" not in shell.environment
    assert shell.with_variables(A="1").proxied == {"HTTPS_PROXY": "http://proxy.example", "HOME": "/root", "A": "1"}


def test_traefik_leaves_no_placeholder() -> None:
    manifest = traefik_manifest(image="traefik:1", listen="0.0.0.0", pull_policy="Never")
    assert "@" not in manifest
    assert "--entryPoints.web.address=0.0.0.0:8080" in manifest


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


def test_the_kernel_is_remembered_once_with_its_forwarding(tmp_path: Path) -> None:
    layout, forwarding = Layout(tmp_path), Path("/proc/sys/net/ipv4/ip_forward")
    remember_kernel(layout)
    remembered = json.loads((tmp_path / "kernel.json").read_text())
    assert remembered["net.ipv4.ip_forward"] == forwarding.read_text()
    assert remembered["vm.overcommit_memory"] == Path("/proc/sys/vm/overcommit_memory").read_text()
    (tmp_path / "kernel.json").write_text("{}")
    remember_kernel(layout)
    assert (tmp_path / "kernel.json").read_text() == "{}"
