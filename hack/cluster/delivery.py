"""Brings the images of this checkout to a cluster: those that its nodes do not have are built and imported."""

from pathlib import Path

from cluster import packages
from cluster.provider import Provider
from cluster.shell import Shell
from images.names import NAMES, Naming

ROOT = Path(__file__).resolve().parents[2]
_BUILD = ROOT / "hack" / "images" / "build"
_ARCHIVES = ROOT / ".conch" / "images"
_BUILDERS = ("docker", "podman", "buildah")
_BUILDAH = {"buildah": "buildah", "debootstrap": "debootstrap"}
"""The builder that needs no daemon, and what makes it a base where none can be pulled."""


def deliver(provider: Provider, shell: Shell) -> Naming:
    """Make every image be in the cluster and return how they are called."""
    naming = Naming.from_environ(shell.environment, ROOT)
    present = provider.images()
    missing = [name for name in NAMES if naming.image(name).reference not in present]
    if missing:
        if not any(map(shell.has, _BUILDERS)):
            packages.require("Building images", _BUILDAH, shell)
        build = shell.with_variables(CONCH_IMAGE_PREFIX=naming.prefix, CONCH_IMAGE_VERSION=naming.version)
        build.show(_BUILD, "--archives", _ARCHIVES, *missing)
        provider.load([_ARCHIVES / naming.image(name).archive for name in missing])
    return naming
