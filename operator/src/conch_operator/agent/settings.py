"""Settings of the agent, read once from CONCH_* variables that the operator writes into the pod."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from conch_contracts.names import AGENT_PORT
from conch_kit.settings import Port
from conch_operator.agent.termination import LONGEST_HOLD_S


class AgentSettings(BaseModel):
    """The settings of every agent; that in the pod of an EnginePool has no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """SHA-256 of the token that the operator asks with, as hexadecimal digits."""
    host: str = "0.0.0.0"
    """Address to listen on."""
    port: Port = AGENT_PORT
    """Port to listen on."""
    longest_hold_s: float = Field(default=LONGEST_HOLD_S, gt=0)
    """How long a pod's end is held back when no operator lets it go."""


class FolderAgentSettings(AgentSettings):
    """The settings of an agent that reads one folder: beside an engine, or alone."""

    folder: Path
    """The model's folder, as the agent sees it."""
    shown_folder: str
    """The same folder as the engine sees it, for messages."""
    needs_weights: bool = True
    """Whether a folder without *.safetensors is a fault."""
    takes_onnx: bool = False
    """Whether an ONNX file may take the place of *.safetensors."""
    needs_speech: bool = False
    """Whether a folder that is none of a model of speech is a fault."""
    needs_config: bool = True
    """Whether a folder without config.json is a fault."""
    needs_template: bool = False
    """Whether a chat template that does not compile is a fault."""
    downloads: bool = False
    """Whether the folder is still to come: then its absence is no fault."""
