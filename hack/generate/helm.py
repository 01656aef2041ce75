"""The helm program, wherever it is on this machine, in the few calls that generating and testing the chart take."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

_ROOT = Path(__file__).parents[2]
CHART = _ROOT / "charts" / "conch"
_UNPACKED = _ROOT / ".conch" / "helm"
_CLUSTER_HOME = "/var/lib/conch-cluster"
KUBERNETES = "1.34.0"


class HelmMissing(Exception):
    """There is no helm on this machine; the message says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm program."""

    program: Path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> "Helm":
        """Look on PATH, beside a cluster that was started here, and among ready-made binaries; raises HelmMissing."""
        home = Path(environ.get("CONCH_CLUSTER_HOME") or _CLUSTER_HOME) / "bin" / "helm"
        if found := shutil.which("helm", path=environ.get("PATH")):
            return cls(Path(found))
        if home.is_file():
            return cls(home)
        if binaries := environ.get("CONCH_CLUSTER_BINARIES"):
            if (plain := Path(binaries) / "helm").is_file():
                return cls(plain)
            if (packed := Path(binaries) / "helm.zst").is_file():
                return cls(_unpack(packed))
        raise HelmMissing("Helm is neither on PATH, nor below CONCH_CLUSTER_HOME, nor in CONCH_CLUSTER_BINARIES.")

    def template(self, *options: str | Path, release: str = "conch", namespace: str = "conch") -> str:
        """Return what a release would consist of; raises CalledProcessError with helm's reason in its stderr."""
        return self._run("template", release, CHART, "-n", namespace, "--kube-version", KUBERNETES, *options)

    def lint(self, *options: str | Path) -> str:
        """Check the chart strictly; raises CalledProcessError."""
        return self._run("lint", CHART, "--strict", "--kube-version", KUBERNETES, *options)

    def _run(self, *words: str | Path) -> str:
        command: Sequence[str] = [str(self.program), *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _unpack(packed: Path) -> Path:
    """Return the program out of an archive, unpacked once for each version of it."""
    target = _UNPACKED / f"helm-{packed.stat().st_size}-{int(packed.stat().st_mtime)}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}")
        with packed.open("rb") as source, draft.open("wb") as sink:
            zstandard.ZstdDecompressor(max_window_size=2**31).copy_stream(source, sink)
        draft.chmod(0o755)
        draft.rename(target)
    return target
