"""What the environment says about clusters, read once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError

_DEFAULT_HOME = "/var/lib/conch-cluster"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where clusters come from and where they keep their files."""

    kubeconfig: Path | None
    """A cluster that is there already; then nothing is started."""
    ingress_url: str | None
    """Where that cluster's ingress answers."""
    binaries: Path | None
    """Ready-made binaries of a node on this machine; without them they are built."""
    home: Path
    """Everything of a node on this machine."""
    cache: Path
    """What outlives clusters and checkouts: built binaries."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the variables; raises ClusterError on one that cannot be used."""
        home = Path(environ.get("CONCH_CLUSTER_HOME") or _DEFAULT_HOME).resolve()
        if re.search(r"[^\w./@+-]", str(home)):
            raise ClusterError(f"CONCH_CLUSTER_HOME may hold letters, digits and ./@+-_ only, not {home}")
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "conch"
        return cls(
            kubeconfig=_file(environ, "CONCH_TEST_KUBECONFIG"),
            ingress_url=environ.get("CONCH_TEST_INGRESS_URL") or None,
            binaries=_folder(environ, "CONCH_CLUSTER_BINARIES"),
            home=home,
            cache=cache,
        )


def _file(environ: Mapping[str, str], name: str) -> Path | None:
    path = environ.get(name)
    if path and not Path(path).is_file():
        raise ClusterError(f"{name} names no file: {path}")
    return Path(path).resolve() if path else None


def _folder(environ: Mapping[str, str], name: str) -> Path | None:
    path = environ.get(name)
    if path and not Path(path).is_dir():
        raise ClusterError(f"{name} names no folder: {path}")
    return Path(path).resolve() if path else None
