"""KWOK's binary, built from its Go module, and how it is started."""

import json
from dataclasses import replace
from pathlib import Path

from cluster.errors import ClusterError, ClusterUnavailable
from cluster.local.machine import Machine
from cluster.shell import Shell, say

MODULE = "sigs.k8s.io/kwok"
VERSION = "v0.8.0"
CHECKSUM = "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ="
"""Of the module, as its go.sum lines have it; its own go.sum holds those of all that it needs."""
STAGES = Path(__file__).with_name("stages.yaml")
POD_NETWORK = "10.99.0.0/16"
_FIRST_POD = "10.99.0.1/16"


def find(ready_made: Path | None, cache: Path, shell: Shell) -> Path:
    """Return the folder that holds the binary: the ready-made one, else one where it is built once.

    Raises ClusterUnavailable, ClusterError.
    """
    if ready_made is not None and any((ready_made / name).exists() for name in ("kwok", "kwok.zst")):
        return ready_made
    folder = cache / f"kwok-{VERSION}"
    if not (folder / "kwok").exists():
        _build(folder, shell)
    return folder


def start(machine: Machine) -> None:
    """Start it on every node that there is; it is not waited for."""
    layout = machine.layout
    machine.start(
        "kwok",
        layout.bin / "kwok",
        f"--kubeconfig={layout.admin}",
        f"--config={STAGES}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",  # by its lease the controllers know that a node lives
        f"--cidr={_FIRST_POD}",
        "--server-address=127.0.0.1:10247",
    )


def _build(folder: Path, shell: Shell) -> None:
    if not shell.has("go"):
        raise ClusterUnavailable("KWOK is built from its Go module: install Go 1.26 or later.")
    say(f"Building KWOK {VERSION} from its Go module (a few minutes, once).")
    downloads = replace(shell, environment=shell.proxied)
    told = json.loads(downloads.run("go", "mod", "download", "-json", f"{MODULE}@{VERSION}"))
    if told["Sum"] != CHECKSUM:
        raise ClusterError(f"The module {MODULE}@{VERSION} has the checksum {told['Sum']} instead of {CHECKSUM}.")
    draft = folder.with_suffix(".new")
    downloads.with_variables(GOBIN=str(draft), CGO_ENABLED="0").show(
        "go", "install", "-trimpath", "-ldflags=-s -w", f"{MODULE}/cmd/kwok@{VERSION}"
    )
    draft.rename(folder)
