"""What every kind of cluster can do, and what its users get."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a running cluster."""

    kubeconfig: Path
    tools: Path | None = None
    """A folder with kubectl and helm; without it they are on PATH."""
    ingress_url: str | None = None
    direct: tuple[str, ...] = ()
    """Addresses that no proxy may stand before."""

    def exports(self) -> str:
        """Return one line of shell that makes it the current cluster."""
        path = f'PATH={shlex.quote(str(self.tools))}:"$PATH"' if self.tools else ""
        names = ",".join(self.direct)
        proxy = f'NO_PROXY="$NO_PROXY,{names}" no_proxy="$no_proxy,{names}"' if names else ""
        return " ".join(filter(None, ["export", f"KUBECONFIG={shlex.quote(str(self.kubeconfig))}", path, proxy]))

    def facts(self) -> dict[str, str | None]:
        """Return it for a program to read."""
        return {
            "kubeconfig": str(self.kubeconfig),
            "tools": str(self.tools) if self.tools else None,
            "ingress_url": self.ingress_url,
        }


class Provider(Protocol):
    """One kind of cluster. All methods raise ClusterError."""

    def up(self) -> Access:
        """Start it, or repair it when it runs; raises ClusterUnavailable where it cannot run."""

    def running(self) -> Access | None:
        """Return how to reach it when it runs."""

    def images(self) -> frozenset[str]:
        """Return the names of the images that its nodes have, as far as can be known."""

    def load(self, archives: Iterable[Path]) -> None:
        """Import image archives into its nodes."""

    def status(self) -> bool:
        """Print what runs and tell whether all of it does."""

    def down(self) -> None:
        """Stop what `up` started."""
