"""What a runtime says about its server; the same things for each, so that one module can make the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from conch_operator.state import EngineContract


@dataclass(frozen=True, slots=True)
class RuntimeServer:
    """One Triton server: its model repository, its options, and how requests reach the model in it."""

    contract: EngineContract
    repository: Mapping[str, str]
    """Files of the model repository by path."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of tritonserver beside those that every engine gets; None for one without a value."""
    env: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 1
    """Servers that one engine consists of, started together by mpirun; only the first is reached from outside."""
    version_folder: str | None = None
    """A folder that stands in the repository as version 1 of the model: the user's own files."""
    image_folder: str | None = None
    """A folder of the image that holds a model of Triton: it is copied into the repository before our own files are."""
