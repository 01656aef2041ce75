from pathlib import Path

import pytest
import yaml

from cluster.errors import ClusterError, ClusterUnavailable
from cluster.local.played import kwok
from cluster.shell import Shell
from conch_contracts.names import SERVING_GATE

_GO = """#!/bin/sh
case "$1" in
  mod) echo '{{"Sum": "{checksum}"}}';;
  install) mkdir -p "$GOBIN"; echo "$4" >> "$GOBIN/kwok";;
esac
"""


def shell(folder: Path, checksum: str | None) -> Shell:
    """Return a shell with a Go that knows one module by this checksum, or with none."""
    folder.mkdir()
    if checksum is not None:
        (folder / "go").write_text(_GO.format(checksum=checksum))
        (folder / "go").chmod(0o755)
    return Shell.without_proxies({"PATH": f"{folder}:/usr/bin:/bin" if checksum else str(folder)})


def test_it_is_built_once_of_the_module_with_the_checksum_that_is_known(tmp_path: Path) -> None:
    tools = shell(tmp_path / "tools", kwok.CHECKSUM)
    found = kwok.find(None, tmp_path / "cache", tools)
    assert kwok.find(None, tmp_path / "cache", tools) == found
    assert (found / "kwok").read_text() == f"{kwok.MODULE}/cmd/kwok@{kwok.VERSION}\n"


def test_another_module_under_its_name_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="has the checksum h1:other instead of h1:"):
        kwok.find(None, tmp_path / "cache", shell(tmp_path / "tools", "h1:other"))
    assert not (tmp_path / "cache").exists()


def test_without_go_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailable, match=r"install Go 1\.26"):
        kwok.find(None, tmp_path / "cache", shell(tmp_path / "tools", None))


def test_a_ready_made_one_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kwok.zst").touch()
    assert kwok.find(tmp_path, tmp_path / "cache", shell(tmp_path / "tools", None)) == tmp_path


def test_a_played_pod_is_ready_by_the_operators_gate_alone() -> None:
    stages = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(kwok.STAGES.read_text())}
    assert '"False"\n  type: Ready\n' in stages["pod-run"]["next"]["statusTemplate"]
    for name, wanted in (("pod-ready", "True"), ("pod-unready", "False")):
        gates = [one for one in stages[name]["selector"]["matchExpressions"] if SERVING_GATE in one["key"]]
        assert [one["values"] for one in gates] == [[wanted]]
