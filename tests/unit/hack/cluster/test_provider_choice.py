from pathlib import Path

from cluster.existing_cluster import ExistingCluster
from cluster.local.local_cluster import LocalCluster
from cluster.provider_choice import choose
from cluster.settings import Settings
from cluster.shell import Shell


def test_a_given_cluster_is_used_and_without_one_or_docker_this_machine(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    shell = Shell.without_proxies({"PATH": str(tmp_path)})
    given = Settings.from_environ({"CONCH_TEST_KUBECONFIG": str(tmp_path / "config")})
    assert isinstance(choose(given, shell), ExistingCluster)
    assert isinstance(choose(Settings.from_environ({}), shell), LocalCluster)
