"""The images that the Dockerfile has a target for, and how they are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from images import source_version

NAMES = ("gateway", "tokenizer", "llm-worker", "embed-worker", "speech-worker", "operator", "engine-cpu", "redis")


@dataclass(frozen=True, slots=True)
class Image:
    """One image to build or to load."""

    target: str
    reference: str

    @property
    def archive(self) -> str:
        """Return the name of the file that holds it."""
        return f"{self.target}.tar"


@dataclass(frozen=True, slots=True)
class Naming:
    """Where the images belong, and their tag."""

    prefix: str
    version: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], root: Path) -> "Naming":
        """Read CONCH_IMAGE_PREFIX and CONCH_IMAGE_VERSION; without a version the tag says what the images hold."""
        version = environ.get("CONCH_IMAGE_VERSION") or f"dev-{source_version.digest(root)}"
        return cls(environ.get("CONCH_IMAGE_PREFIX") or "conch.test", version)

    def image(self, target: str) -> Image:
        """Return the image of one target."""
        return Image(target, f"{self.prefix}/{target}:{self.version}")
