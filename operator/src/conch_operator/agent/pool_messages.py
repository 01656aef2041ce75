"""What the operator and the agent in the pod of an EnginePool say to each other, also of two versions."""

from pydantic import BaseModel, ConfigDict

from conch_contracts.names import Digest
from conch_operator.engine_pools.pooled_model import Loadable
from conch_operator.state import ClusterEngine, EngineName

MODELS_PATH = "/models"
REPORT_PATH = "/models/report"
FOLDER_PATH = "/folder"
FOLDER_BUNDLE_PATH = "/folder/bundle"

MAX_QUESTION_BYTES = 64 * 1024 * 1024
"""More than the files of a thousand models."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PoolReport(_Message):
    """What is in a pool's server."""

    agent: str
    """Which run of which agent says this."""
    changes: int
    """How many it has seen; more with each."""
    live: bool
    """Whether the server runs."""
    models: tuple[ClusterEngine, ...] = ()
    """Those that are loaded, that are to be, and those that go. Their address is the agent's own."""
    tokenizers: dict[EngineName, Digest] = {}


class PoolOrder(_Message):
    """What is to be in a pool's server: all else goes."""

    fence: int = 0
    """Of the operator that says so: one that takes over has a greater one. 0: of an operator that does not tell."""
    number: int = 0
    """Which of its orders it is. One that comes after a later one was given up on its way, and is not obeyed."""
    keep: tuple[EngineName, ...] = ()
    """Those that the agent knows already."""
    load: tuple[Loadable, ...] = ()
    restart: tuple[EngineName, ...] = ()
    """Those to be unloaded and loaded again."""


class PoolQuestion(_Message):
    """Asks for a report, and waits for it until there is something that a caller of these has not seen."""

    agent: str = ""
    changes: int = 0
    wait_s: float = 0.0


class FolderQuestion(_Message):
    """Asks for the folder of one model."""

    folder: str
    """As the server sees it."""
    weights: bool
    config: bool
    onnx: bool
