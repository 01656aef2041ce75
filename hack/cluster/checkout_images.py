"""Brings the images of this checkout to a cluster: builds and imports those that its nodes do not have."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster import debian_packages
from cluster.errors import ClusterError, ClusterUnavailable
from cluster.provider import Provider
from cluster.shell import Shell, say
from images.build_tools import TOOLS, BuildFailed, find_tool
from images.image_names import NAMES, Image, Naming

ROOT = Path(__file__).resolve().parents[2]
_BUILD = ROOT / "hack" / "images" / "build"
_SCRATCH = ROOT / ".conch"
_BASE = {"debootstrap": "debootstrap"}
"""The program that makes a base image where none can be pulled, and its package."""
_BUILDAH = {"buildah": "buildah", **_BASE}
"""The builder that needs no daemon, with what makes its base image."""


def check_builder(provider: Provider, shell: Shell) -> None:
    """Check that images can be built, before a cluster is started for them; raises ClusterUnavailable."""
    if provider.running() is None:
        require_builder(shell)


def ensure_images(provider: Provider, shell: Shell) -> Naming:
    """Build and import what the cluster lacks, and return how the images are called."""
    naming = Naming.from_environ(shell.environment, ROOT)
    present = provider.images()
    missing = [name for name in NAMES if naming.image(name).reference not in present]
    if missing:
        build_images(shell, missing)
        with closing(_saved([naming.image(name) for name in missing], shell)) as archives:
            provider.load(archives)
    return naming


def build_images(shell: Shell, names: Sequence[str] = ()) -> None:
    """Build these images, all of them without one; raises ClusterUnavailable where nothing here builds images."""
    require_builder(shell)
    naming = Naming.from_environ(shell.environment, ROOT)
    build = shell.with_variables(CONCH_IMAGE_PREFIX=naming.prefix, CONCH_IMAGE_VERSION=naming.version)
    build.show(_BUILD, *names)


def require_builder(shell: Shell) -> None:
    """Install what builds images where nothing does; raises ClusterUnavailable with the command instead.

    A docker command without its daemon builds nothing. A base is made by root alone, so only root needs what makes it.
    """
    wanted = shell.environment.get("CONCH_IMAGE_TOOL")
    if any(_builds(tool, shell) for tool in ([wanted] if wanted else TOOLS)):
        if not shell.environment.get("CONCH_IMAGE_BASE") and not os.geteuid() and shell.has("apt-get"):
            debian_packages.require("Making a base image", _BASE, shell)
    elif wanted and wanted != "buildah":
        raise ClusterUnavailable(f"CONCH_IMAGE_TOOL is {wanted}, which does not work here. Remove the variable.")
    else:
        debian_packages.require("Building images", _BUILDAH, shell)


def _saved(images: Sequence[Image], shell: Shell) -> Generator[Path, None, None]:
    """Give the images as archives, each for as long as it is looked at: together they would take gigabytes.

    The next one is written meanwhile.
    """
    try:
        tool = find_tool(shell.environment.get("CONCH_IMAGE_TOOL"))
        _SCRATCH.mkdir(exist_ok=True)
        with (
            TemporaryDirectory(prefix="images-", dir=_SCRATCH) as folder,
            ThreadPoolExecutor(1) as saver,
            closing(tool),
        ):

            def save(image: Image) -> Path:
                archive = Path(folder, f"{image.target}.tar")
                tool.save(image, archive)
                return archive

            saving = saver.submit(save, images[0])
            for image, following in zip(images, [*images[1:], None], strict=True):
                archive = saving.result()
                if following is not None:
                    saving = saver.submit(save, following)
                say(f"{image.reference} is brought to the cluster.")
                yield archive
                archive.unlink()
    except BuildFailed as error:
        raise ClusterError(str(error)) from error


def _builds(tool: str, shell: Shell) -> bool:
    if not shell.has(tool):
        return False
    return tool != "docker" or shell.ask("docker", "version", "--format={{.Server.Version}}").returncode == 0
