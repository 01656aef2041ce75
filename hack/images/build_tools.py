"""The three image builders that do: docker, podman and buildah. Everything that differs between them is here."""

import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from images.image_names import Image
from images.programs import Programs

TOOLS = ("docker", "podman", "buildah")
_PLAIN_REGISTRY = b"server gave HTTP response to HTTPS client"
_BUSY_KERNEL = b"sealing memfd copy: Device or resource busy"
"""What podman and buildah say when the kernel could not yet seal the copy of their own program that runs a step.

Linux gives up after 0.15 s while another processor still holds its pages (mm/memfd.c); nothing has run then.
"""
_TRIES = 3
"""What builds images, in the order in which it is looked for."""


class BuildFailed(Exception):
    """No image came of it; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all images of one run share."""

    context: Path
    base: str
    version: str
    revision: str
    secrets: Mapping[str, Path]
    speech_extras: str = ""


class Tool(ABC):
    """A builder, driven by its command line."""

    name: ClassVar[str]
    options: ClassVar[Sequence[str]] = ()
    """Of the build command."""

    def __init__(self) -> None:
        self._programs = Programs()

    def close(self) -> None:
        """End what it does in other threads; it does nothing more."""
        self._programs.close()

    def build(self, recipe: Recipe, image: Image) -> None:
        """Build one target of the Dockerfile."""
        # As labels of the command line they come last, so that another commit spoils no cached layer.
        labels = {"version": recipe.version, "revision": recipe.revision, "base.name": recipe.base}
        options = [f"--label=org.opencontainers.image.{name}={value}" for name, value in labels.items()]
        self._build_target(recipe, image.target, f"--tag={image.reference}", *options)

    def build_stage(self, recipe: Recipe, stage: str) -> None:
        """Build one stage of the Dockerfile for the images that come from it."""
        self._build_target(recipe, stage)

    def build_folder(self, folder: Path, reference: str) -> None:
        """Build the Dockerfile in a folder that has nothing to do with ours."""
        self._build(f"--tag={reference}", str(folder))

    def exists(self, reference: str) -> bool:
        """Tell whether this machine has the image."""
        return bool(self.image_id(reference))

    def pull(self, reference: str) -> bool:
        """Get an image from its registry; False when that cannot be reached."""
        command = [self.name, "pull", reference]
        try:
            return subprocess.run(command, stdout=sys.stderr, check=False, timeout=300).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    @abstractmethod
    def save(self, image: Image, archive: Path) -> None:
        """Write the image as a docker archive; raises BuildFailed."""

    @abstractmethod
    def push(self, image: Image) -> str:
        """Bring the image to the registry in its name, and return its digest there; raises BuildFailed."""

    @abstractmethod
    def image_id(self, reference: str) -> str:
        """Return the id of an image, empty when this machine does not have it."""

    def _build_target(self, recipe: Recipe, target: str, *words: str) -> None:
        secrets = [word for name, path in recipe.secrets.items() for word in ("--secret", f"id={name},src={path}")]
        given = {"BASE": recipe.base, "SPEECH_EXTRAS": recipe.speech_extras}
        arguments = [f"--build-arg={name}={value}" for name, value in given.items() if value]
        self._build(f"--target={target}", *secrets, *arguments, *words, str(recipe.context))

    def _build(self, *words: str) -> None:
        self._run("build", *self.options, *words)

    def _run(self, *words: str) -> None:
        """Run one of its commands and show all that it said at its end, because others may run beside it."""
        for left in range(_TRIES - 1, -1, -1):
            done = self._programs.run(self.name, *words)
            sys.stderr.buffer.write(done.stdout)
            sys.stderr.flush()
            if done.returncode == 0:
                return
            if _PLAIN_REGISTRY in done.stdout:
                raise BuildFailed(
                    f"The registry speaks HTTP without TLS. Give it a certificate, or tell {self.name} that it may be "
                    "insecure: in containers-registries.conf, or for docker in its daemon.json."
                )
            if not left or _BUSY_KERNEL not in done.stdout:
                raise BuildFailed(f"{self.name} {words[0]} failed; what it said is above.")
            sys.stderr.write(f"[images] The kernel was too busy for {self.name} to start; it is started again.\n")

    def _push_with_digest(self, *words: str) -> str:
        """Push with a tool that writes the digest to a file."""
        with tempfile.NamedTemporaryFile(prefix="conch-digest-") as file:
            self._run("push", "--quiet", f"--digestfile={file.name}", *_tls_options(words[0]), *words)
            return Path(file.name).read_text(encoding="ascii").strip()

    def _ask(self, *words: str) -> str:
        return subprocess.run([self.name, *words], capture_output=True, text=True, check=False).stdout.strip()


def _tls_options(reference: str) -> tuple[str, ...]:
    """Return how to push: this machine's own registry may do without TLS, as with docker."""
    host = reference.partition("/")[0].partition(":")[0]
    return ("--tls-verify=false",) if host == "localhost" or host.startswith("127.") else ()


def find_tool(wanted: str | None) -> Tool:
    """Return the wanted tool, else the first that works here."""
    tools: Mapping[str, type[Tool]] = {"docker": _Docker, "podman": _Podman, "buildah": _Buildah}
    if wanted and wanted not in tools:
        raise BuildFailed(f"CONCH_IMAGE_TOOL is {wanted!r}; it can be {', '.join(tools)}.")
    for name in [wanted] if wanted else list(tools):
        if shutil.which(name) and (name != "docker" or has_docker_daemon()):
            return tools[name]()
    raise BuildFailed(
        "No docker with a daemon, no podman and no buildah is here. On Debian: apt-get install -y buildah debootstrap"
    )


def has_docker_daemon() -> bool:
    """Tell whether a docker command is here and reaches its daemon."""
    if not shutil.which("docker"):
        return False
    asked = subprocess.run(["docker", "version", "--format={{.Server.Version}}"], capture_output=True, check=False)
    return asked.returncode == 0


class _Docker(Tool):
    name = "docker"

    def push(self, image: Image) -> str:
        self._run("push", "--quiet", image.reference)
        name = image.reference.rpartition(":")[0]
        for known in self._ask("image", "inspect", '--format={{join .RepoDigests " "}}', image.reference).split():
            if known.startswith(f"{name}@"):
                return known.removeprefix(f"{name}@")
        raise BuildFailed(f"docker does not know the digest of {image.reference}, which it has pushed.")

    def image_id(self, reference: str) -> str:
        return self._ask("image", "inspect", "--format={{.Id}}", reference)

    def save(self, image: Image, archive: Path) -> None:
        self._run("save", f"--output={archive}", image.reference)


class _Podman(Tool):
    name = "podman"
    options = ("--layers", "--network=host")

    def push(self, image: Image) -> str:
        return self._push_with_digest(image.reference)

    def image_id(self, reference: str) -> str:
        return self._ask("image", "inspect", "--format={{.Id}}", reference)

    def save(self, image: Image, archive: Path) -> None:
        self._run("save", "--format=docker-archive", f"--output={archive}", image.reference)


class _Buildah(Tool):
    name = "buildah"
    # It needs no container runtime then, and no rights that a container would not have.
    options = ("--layers", "--network=host", "--isolation=chroot")

    def push(self, image: Image) -> str:
        return self._push_with_digest(image.reference, f"docker://{image.reference}")

    def image_id(self, reference: str) -> str:
        return self._ask("inspect", "--type=image", "--format={{.FromImageID}}", reference)

    def save(self, image: Image, archive: Path) -> None:
        self._run("push", "--quiet", image.reference, f"docker-archive:{archive}:{image.reference}")
