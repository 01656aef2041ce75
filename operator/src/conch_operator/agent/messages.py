"""The agent's messages and HTTP paths: the wire format between operator, kubelet and agent, also of two versions."""

from pydantic import BaseModel, ConfigDict

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest
from conch_contracts.records import ChatProfile
from conch_operator.state import EncoderFacts, GenerationFacts, SpeechFacts

SOURCE_PATH = "/source"
BUNDLE_PATH = "/bundle"
WITHDRAWN_PATH = "/withdrawn"
RESTART_PATH = "/condemned"
"""Named so by agents of earlier versions, which an operator must reach too."""
LIVE_PATH = "/livez"


class FolderReport(BaseModel):
    """Facts of a folder that can be served."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    folder: str
    digest: Digest
    weights: str
    vocab_size: int
    max_position_embeddings: int | None
    generation: GenerationFacts = GenerationFacts()
    chat: ChatProfile = ChatProfile()
    encoder: EncoderFacts = EncoderFacts()
    speech: SpeechFacts = SpeechFacts()
    sees: bool = False
    weight_bytes: int = 0


class FaultReport(BaseModel):
    """What is wrong with a folder."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: Reason
    message: str


class SourceReport(BaseModel):
    """What is known of a folder: its facts, or what is wrong with it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    facts: FolderReport | None = None
    fault: FaultReport | None = None
