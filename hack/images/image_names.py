"""The images that the Dockerfile has a target for, and how they are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from images import source_version

NAMES = (
    "gateway",
    "tokenizer",
    "llm-worker",
    "embed-worker",
    "speech-worker",
    "media",
    "operator",
    "engine-cpu",
    "redis",
)


@dataclass(frozen=True, slots=True)
class Image:
    """One image to build or to load."""

    target: str
    reference: str


@dataclass(frozen=True, slots=True)
class Naming:
    """Where the images belong, and their tag."""

    prefix: str
    version: str
    speech_extras: str = ""
    """Extras of the speech-worker's distribution that are in its image."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], root: Path) -> "Naming":
        """Read CONCH_IMAGE_PREFIX, _VERSION and _SPEECH_EXTRAS; without a version the tag says what the images hold."""
        extras = environ.get("CONCH_IMAGE_SPEECH_EXTRAS", "")
        made_of = "-".join(filter(None, ("dev", source_version.digest(root), extras.replace(",", "-"))))
        return cls(
            environ.get("CONCH_IMAGE_PREFIX") or "conch.test", environ.get("CONCH_IMAGE_VERSION") or made_of, extras
        )

    def image(self, target: str) -> Image:
        """Return the image of one target."""
        return Image(target, f"{self.prefix}/{target}:{self.version}")
