"""The images that the Dockerfile has a target for, and how they are called."""

from collections.abc import Mapping
from dataclasses import dataclass

NAMES = ("gateway", "tokenizer", "llm-worker", "embed-worker", "operator", "engine-cpu", "redis")


@dataclass(frozen=True, slots=True)
class Image:
    """One image to build or to load."""

    target: str
    reference: str

    @property
    def archive(self) -> str:
        """Return the name of the file that holds it."""
        return self.reference.replace("/", "_").replace(":", "_") + ".tar"


@dataclass(frozen=True, slots=True)
class Naming:
    """Where the images belong, and their tag."""

    prefix: str
    version: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Naming":
        """Read CONCH_IMAGE_PREFIX and CONCH_IMAGE_VERSION."""
        return cls(environ.get("CONCH_IMAGE_PREFIX") or "conch.test", environ.get("CONCH_IMAGE_VERSION") or "dev")

    def image(self, target: str) -> Image:
        """Return the image of one target."""
        return Image(target, f"{self.prefix}/{target}:{self.version}")
