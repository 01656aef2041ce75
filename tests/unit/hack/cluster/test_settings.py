from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.settings import Settings


@pytest.mark.parametrize("name", ["CONCH_TEST_KUBECONFIG", "CONCH_CLUSTER_BINARIES"])
def test_a_path_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=f"{name} names no .*nowhere"):
        Settings.from_environ({name: str(tmp_path / "nowhere")})


def test_a_home_that_mount_options_cannot_hold_is_refused() -> None:
    with pytest.raises(ClusterError, match="CONCH_CLUSTER_HOME"):
        Settings.from_environ({"CONCH_CLUSTER_HOME": "/var/lib/a,b"})
