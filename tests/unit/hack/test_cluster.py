import shlex
from pathlib import Path

import pytest

from cluster.choice import choose
from cluster.errors import ClusterError
from cluster.given import Given
from cluster.local.addons import traefik_manifest
from cluster.local.cluster import LocalCluster
from cluster.provider import Access
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
    assert isinstance(choose(given, shell), Given)
    assert isinstance(choose(Settings.from_environ({}), shell), LocalCluster)


def test_programs_of_this_machine_see_no_proxy_and_downloads_do() -> None:
    shell = Shell.without_proxies({"HTTPS_PROXY": "http://proxy.example", "HOME": "/root"})
    assert "HTTPS_PROXY" not in shell.environment
    assert shell.with_variables(A="1").proxied == {"HTTPS_PROXY": "http://proxy.example", "HOME": "/root", "A": "1"}


def test_traefik_leaves_no_placeholder() -> None:
    manifest = traefik_manifest(image="traefik:1", listen="0.0.0.0", pull_policy="Never")
    assert "@" not in manifest
    assert "--entryPoints.web.address=0.0.0.0:8080" in manifest
