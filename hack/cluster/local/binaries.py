"""Puts the node's binaries into place: ready-made ones, else ones built from their Go modules by `recipe/build`.

Built ones are kept under the recipe's digest in the user's cache, so they outlive clusters and checkouts. A build that
was interrupted leaves what it has finished there, and the next one goes on with the rest.
"""

import hashlib
import shutil
from pathlib import Path

from cluster import debian_packages
from cluster.errors import ClusterUnavailable
from cluster.local.layout import Layout
from cluster.shell import Shell, say

NAMES = ("kube", "coredns", "traefik", "helm", "pause")
_RECIPE = Path(__file__).with_name("recipe")
_PROGRAMS = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "nft": "nftables",
    "ip": "iproute2",
    "zstd": "zstd",
    "openssl": "openssl",
}
"""What the node needs, and the Debian packages that have it."""


def install_packages(shell: Shell) -> None:
    """Install what the node needs of Debian; raises ClusterUnavailable."""
    debian_packages.require("A node on this machine", _PROGRAMS, shell)


def place(layout: Layout, shell: Shell, *, ready_made: Path | None, cache: Path) -> None:
    """Put every binary into the layout's folder, whole or not at all, also while an older one runs."""
    source = ready_made or built(cache, shell)
    for name in NAMES:
        put(name, source, layout, shell)
    kubectl = layout.bin / "kubectl"
    if not kubectl.exists():
        kubectl.symlink_to("kube")


def put(name: str, source: Path, layout: Layout, shell: Shell) -> None:
    """Put one binary of a folder, packed or not, into the layout's; raises ClusterUnavailable where it is not there."""
    packed, plain = source / f"{name}.zst", source / name
    origin = packed if packed.exists() else plain
    if not origin.exists():
        raise ClusterUnavailable(f"{source} has neither {name} nor {name}.zst")
    target, fresh = layout.bin / name, layout.bin / f"{name}.new"
    if target.exists() and target.stat().st_mtime == origin.stat().st_mtime:
        return
    if origin == packed:
        shell.run("zstd", "-dqf", "--long=27", packed, "-o", fresh)
        shutil.copystat(packed, fresh)
    else:
        shutil.copy2(plain, fresh)
    fresh.chmod(0o755)
    fresh.rename(target)


def built(cache: Path, shell: Shell) -> Path:
    """Return the folder of the binaries that were built here, now or before; raises ClusterError."""
    files = sorted(path for path in _RECIPE.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]
    folder = cache / f"cluster-{digest}"
    if folder.exists():
        return folder
    if not shell.has("go") or not shell.has("cc"):
        raise ClusterUnavailable(
            "No Kubernetes binaries are here. Set CONCH_CLUSTER_BINARIES to a folder that has them, or install "
            "Go 1.24 or later and a C compiler to have them built, or install k3d or kind beside Docker."
        )
    say("Building Kubernetes, CoreDNS, Traefik and Helm from their Go modules (10 to 15 minutes, once).")
    draft = folder.with_suffix(".new")
    shell.show(_RECIPE / "build", draft)
    draft.rename(folder)
    return folder
